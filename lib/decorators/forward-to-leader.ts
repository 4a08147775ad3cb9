import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { type ExecutionContext, StreamableFile } from '@nestjs/common';
import { CoordinationError } from '../client/errors.js';
import { type LeaderParticipant, NotLeaderError } from '../recipes/index.js';
import { onClientDisconnect } from './client-disconnect.js';
import { MisuseError } from './requirement.js';

/**
 * A request was forwarded to the leader, and the leader did not answer. It may have been handled.
 *
 * @publicApi
 */
export class ForwardingError extends CoordinationError {
  readonly code = 'FORWARDING';
}

/** Counts how often a request was forwarded: leaders may change faster than requests arrive. */
const HOPS = 'x-leader-hops';
const MAX_HOPS = 3;

/** Milliseconds until the leader must have begun its answer. */
const ANSWER_LIMIT = 60_000;

/** Headers about one connection (RFC 9110, section 7.6.1), and those that the HTTP client sets itself. */
const OWN_HEADERS = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding'],
  ...['upgrade', 'host', 'content-length', 'expect', HOPS],
]);

/** The common part of Express's request and Fastify's. */
interface HttpRequest {
  readonly method: string;
  readonly originalUrl: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body?: unknown;
  readonly rawBody?: Buffer;
  /** Fastify's. */
  readonly raw?: IncomingMessage;
}

/** The common part of Express's response and Fastify's reply. */
interface HttpResponse {
  status(code: number): unknown;
  header(name: string, value: string | string[]): unknown;
}

/** A call to forward. */
interface ForwardedCall {
  readonly election: string;
  /** `Class.method`, for error messages. */
  readonly label: string;
  readonly context: ExecutionContext | undefined;
  leader(): Promise<LeaderParticipant | undefined>;
}

/**
 * Sends the HTTP request of a handler to the leader, whose id must be its URL. Answers with the leader's status, headers
 * and body.
 *
 * @throws NotLeaderError if nobody leads, or after three hops; ForwardingError if the leader does not answer; MisuseError
 */
export async function forwardToLeader(call: ForwardedCall): Promise<StreamableFile> {
  const { context, election, label } = call;
  if (context?.getType() !== 'http') {
    throw new MisuseError(`${label} cannot forward its call: only HTTP handlers can`);
  }
  const request = context.switchToHttp().getRequest<HttpRequest>();
  const hops = Number(request.headers[HOPS] ?? 0);
  if (!(hops >= 0 && hops < MAX_HOPS)) {
    const message = `${label} was forwarded ${MAX_HOPS} times, and this instance is not the leader`;
    throw new NotLeaderError(message, { key: election });
  }
  const url = await leaderUrl(call, request.originalUrl);
  const body = bodyOf(request, label);
  const cancel = new AbortController();
  const stopListening = onClientDisconnect(context, () => cancel.abort());
  const timer = setTimeout(() => cancel.abort(), ANSWER_LIMIT);
  let answer: Response;
  try {
    answer = await fetch(url, {
      method: request.method,
      headers: requestHeaders(request, hops + 1, body),
      body,
      redirect: 'manual',
      signal: cancel.signal,
      duplex: 'half',
    } as RequestInit);
  } catch (cause) {
    const message = `${label} was forwarded to the leader at ${url.origin}, which did not answer`;
    throw new ForwardingError(message, { key: election, cause });
  } finally {
    clearTimeout(timer);
    stopListening();
  }
  const response = context.switchToHttp().getResponse<HttpResponse>();
  response.status(answer.status);
  const cookies = answer.headers.getSetCookie();
  if (cookies.length > 0) response.header('set-cookie', cookies);
  for (const [name, value] of answer.headers) {
    // The HTTP client has decoded the body.
    const skipped = OWN_HEADERS.has(name) || name === 'set-cookie' || name === 'content-encoding';
    if (!skipped) response.header(name, value);
  }
  const content = answer.body ? Readable.fromWeb(answer.body as ReadableStream) : Readable.from([]);
  return new StreamableFile(content, { type: answer.headers.get('content-type') ?? undefined });
}

/** Returns the URL of the request on the leader. */
async function leaderUrl({ election, label, leader }: ForwardedCall, target: string): Promise<URL> {
  const found = await leader();
  if (!found) {
    const message = `${label} runs only on the leader, and election ${JSON.stringify(election)} has none now`;
    throw new NotLeaderError(message, { key: election });
  }
  const base = URL.canParse(found.id) ? new URL(found.id) : undefined;
  if (base?.protocol !== 'http:' && base?.protocol !== 'https:') {
    throw new MisuseError(
      `${label} cannot forward its call: the id of the leader is ${JSON.stringify(found.id)} and not its URL; set participantId, or the id of the election, to a URL such as http://10.0.0.7:3000 on each instance`,
    );
  }
  // The client determines only the path and the query.
  base.pathname = base.pathname.replace(/\/$/, '') + target.replace(/[?#].*$/, '');
  base.search = /\?.*$/.exec(target)?.[0] ?? '';
  return base;
}

function requestHeaders({ headers }: HttpRequest, hops: number, body: Body): Headers {
  const sent = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    // The body parser has decompressed the body.
    const isDecoded = name === 'content-encoding' && !(body instanceof Readable);
    if (isDecoded || OWN_HEADERS.has(name)) continue;
    for (const each of [value ?? []].flat()) sent.append(name, each);
  }
  // Those that fetch decodes.
  sent.set('accept-encoding', 'gzip, deflate, br');
  sent.set(HOPS, String(hops));
  return sent;
}

type Body = Readable | Buffer | string | undefined;

/** Returns the body as the client sent it. A parser may have read it already. */
function bodyOf(request: HttpRequest, label: string): Body {
  const { method, headers, body, rawBody, raw } = request;
  if (method === 'GET' || method === 'HEAD') return undefined;
  if (rawBody) return rawBody;
  const stream = raw ?? (request as unknown as IncomingMessage);
  if (!stream.readableDidRead) return stream;
  if (body === undefined || Buffer.isBuffer(body)) return body;
  const type = String(headers['content-type']);
  if (/^application\/([\w.+-]+\+)?json\b/i.test(type)) return JSON.stringify(body);
  if (typeof body === 'string') return body;
  throw new MisuseError(
    `${label} cannot forward its call: the body of the type ${JSON.stringify(type)} has been parsed; for form data, call NestFactory.create() with rawBody: true`,
  );
}
