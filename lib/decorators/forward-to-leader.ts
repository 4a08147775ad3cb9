import http, { type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import https from 'node:https';
import { pipeline, Readable } from 'node:stream';
import { type ExecutionContext, StreamableFile } from '@nestjs/common';
import { CoordinationError } from '../client/errors.js';
import { type LeaderParticipant, NotLeaderError } from '../recipes/index.js';
import { onClientDisconnect } from './client-disconnect.js';
import { MisuseError } from './requirement.js';

/**
 * A request was forwarded to the leader, and the leader did not answer. It may have been handled.
 * Cause: the leader stopped, does not listen at the URL that is its `participantId`, or did not begin its answer within
 * 60 seconds.
 * Remedy: check that each instance can reach the `participantId` of the others. Repeat the request only if it may run
 * twice.
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
const OWN_HEADERS = [
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding'],
  ...['upgrade', 'host', 'expect', HOPS],
];

/** Keys of Nest's metadata: the parameters of a handler, and whether it returns its answer despite `@Res()`. */
const ROUTE_ARGS = '__routeArguments__';
const RESPONSE_PASSTHROUGH = '__responsePassthrough__';
/** The keys of decorators with which Nest does not send the result of a handler as it is. */
const ANSWERS_ITSELF = {
  __sse__: '@Sse()',
  __redirect__: '@Redirect()',
  __renderTemplate__: '@Render()',
};

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
  checkAnswerable(context, label);
  const request = context.switchToHttp().getRequest<HttpRequest>();
  const hops = request.headers[HOPS] ?? '0';
  if (!/^[0-2]$/.test(String(hops))) {
    const message = `${label} was forwarded ${MAX_HOPS} times, and this instance is not the leader`;
    throw new NotLeaderError(message, { key: election });
  }
  const url = await leaderUrl(call);
  const body = bodyOf(request, label);
  const cancel = new AbortController();
  const stopListening = onClientDisconnect(context, () => cancel.abort());
  const timer = setTimeout(() => cancel.abort(), ANSWER_LIMIT);
  let answer: IncomingMessage;
  try {
    answer = await send(url, request, Number(hops) + 1, body, cancel.signal);
  } catch (cause) {
    stopListening();
    const message = `${label} was forwarded to the leader at ${url.origin}, which did not answer`;
    throw new ForwardingError(message, { key: election, cause });
  } finally {
    clearTimeout(timer);
  }
  answer.once('close', stopListening);
  const response = context.switchToHttp().getResponse<HttpResponse>();
  response.status(answer.statusCode!);
  for (const [name, value] of endToEnd(answer.headers)) response.header(name, value);
  return new StreamableFile(answer, { type: answer.headers['content-type'] });
}

/** @throws MisuseError for a handler that does not return its answer, so that the leader's would be lost */
function checkAnswerable(context: ExecutionContext, label: string): void {
  const [handler, controller] = [context.getHandler(), context.getClass()];
  const routeArguments: object = Reflect.getMetadata(ROUTE_ARGS, controller, handler.name) ?? {};
  const writesResponse =
    !Reflect.getMetadata(RESPONSE_PASSTHROUGH, controller, handler.name) &&
    Object.keys(routeArguments).some((key) => /^[12]:/.test(key));
  const used = Object.entries(ANSWERS_ITSELF).find(([key]) => Reflect.hasMetadata(key, handler));
  const decorator = writesResponse ? '@Res() without passthrough, or @Next()' : used?.[1];
  if (!decorator) return;
  throw new MisuseError(`${label} cannot forward its call, because it has ${decorator}`);
}

/** Sends a request to the leader. Resolves when the answer begins. */
function send(
  base: URL,
  request: HttpRequest,
  hops: number,
  body: Body,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const headers: OutgoingHttpHeaders = Object.fromEntries(endToEnd(request.headers));
  if (!(body instanceof Readable)) {
    // The body parser has decompressed the body.
    delete headers['content-encoding'];
    delete headers['content-length'];
  }
  headers[HOPS] = String(hops);
  // As the client sent it: a URL object would resolve `..` and change the path that was matched here.
  const target = request.originalUrl.replace(/^[a-z]+:\/\/[^/?#]*/i, '');
  const path = base.pathname.replace(/\/$/, '') + target;
  const { request: open } = base.protocol === 'https:' ? https : http;
  return new Promise((resolve, reject) => {
    const outgoing = open(base, { method: request.method, path, headers, signal });
    outgoing.once('response', resolve).once('error', reject);
    if (body instanceof Readable) pipeline(body, outgoing, () => {});
    else outgoing.end(body);
  });
}

/** Returns the headers without those about one connection. */
function endToEnd(headers: HttpRequest['headers']): [string, string | string[]][] {
  const named = String(headers.connection ?? '')
    .toLowerCase()
    .split(/ *, */);
  const skipped = new Set([...OWN_HEADERS, ...named]);
  return Object.entries(headers).filter(
    (entry): entry is [string, string | string[]] =>
      entry[1] !== undefined && !skipped.has(entry[0]),
  );
}

/** Returns the URL of the leader. */
async function leaderUrl({ election, label, leader }: ForwardedCall): Promise<URL> {
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
  return base;
}

type Body = Readable | Buffer | string | undefined;

/** Returns the body as the client sent it. A parser may have read it already. */
function bodyOf(request: HttpRequest, label: string): Body {
  const { headers, body, rawBody, raw } = request;
  const isEmpty = headers['transfer-encoding'] === undefined && !Number(headers['content-length']);
  if (isEmpty) return undefined;
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
