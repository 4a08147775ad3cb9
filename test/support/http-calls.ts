import { IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { INestApplication } from '@nestjs/common';

/*
 * HTTP requests without sockets, which virtual time does not have. The request listener of an application gets Node's
 * own request and response, on a connection in memory.
 */

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  /** The text as JSON; undefined if it is not JSON. */
  readonly body: unknown;
}

class Connection extends Duplex {
  readonly chunks: Buffer[] = [];

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.chunks.push(chunk);
    done();
  }

  get answer(): Answer {
    const [head, ...rest] = Buffer.concat(this.chunks).toString().split('\r\n\r\n');
    const [statusLine, ...lines] = head!.split('\r\n');
    const headers = lines.map((line) => {
      const [name, value] = line.split(/: ?(.*)/s);
      return [name!.toLowerCase(), value!] as const;
    });
    const text = rest.join('\r\n\r\n');
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      // It is not JSON.
    }
    const status = Number(statusLine!.split(' ')[1]);
    return { status, headers: Object.fromEntries(headers), text, body };
  }
}

/** Sends a request, with a JSON body if there is one. `leave` disconnects the client. */
export function call(
  app: INestApplication,
  path: string,
  body?: unknown,
): {
  readonly answer: Promise<Answer>;
  /** Returns the part of the answer that has arrived. */
  received(): string;
  leave(): void;
} {
  const connection = new Connection();
  const request = new IncomingMessage(connection as unknown as Socket);
  const content = Buffer.from(body === undefined ? '' : JSON.stringify(body));
  Object.assign(request, {
    method: body === undefined ? 'GET' : 'POST',
    url: path,
    // An answer over HTTP/1.0 is not chunked.
    httpVersion: '1.0',
    httpVersionMajor: 1,
    httpVersionMinor: 0,
    headers: { 'content-type': 'application/json', 'content-length': `${content.length}` },
    complete: true,
  });
  request.push(content);
  request.push(null);
  const response = new ServerResponse(request);
  response.assignSocket(connection as unknown as Socket);
  const answer = new Promise<Answer>((resolve) => {
    response.once('finish', () => {
      resolve(connection.answer);
      connection.destroy();
    });
  });
  (app.getHttpServer() as Server).emit('request', request, response);
  return {
    answer,
    received: () => connection.answer.text,
    leave: () => {
      connection.destroy();
      request.destroy();
    },
  };
}

export const get = (app: INestApplication, path: string): Promise<Answer> => call(app, path).answer;

export const post = (app: INestApplication, path: string, body: unknown = {}): Promise<Answer> =>
  call(app, path, body).answer;
