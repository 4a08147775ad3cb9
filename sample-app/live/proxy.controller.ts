import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  All,
  BadGatewayException,
  Controller,
  Req,
  Res,
  ServiceUnavailableException,
} from '@nestjs/common';
import { Fleet } from './fleet.js';

const HEADERS = ['content-type', 'retry-after'];

/** Forwards all other requests to the first instance that is alive and has no fault. */
@Controller()
export class ProxyController {
  constructor(private readonly fleet: Fleet) {}

  @All('*path')
  async forward(
    @Req() request: IncomingMessage & { originalUrl: string; body?: unknown },
    @Res() response: ServerResponse,
  ): Promise<void> {
    const [slot] = this.fleet.healthy;
    if (!slot) throw new ServiceUnavailableException('no instance is free of faults');
    // The instance must not wait for a lock on behalf of a client that has left.
    const leaving = new AbortController();
    response.once('close', () => leaving.abort());
    try {
      const answer = await fetch(slot.instance!.url + request.originalUrl, {
        method: request.method,
        signal: leaving.signal,
        // fetch() rejects a body of these methods.
        ...(!['GET', 'HEAD'].includes(request.method!) &&
          request.body !== undefined && {
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(request.body),
          }),
      });
      const body = Buffer.from(await answer.arrayBuffer());
      response.statusCode = answer.status;
      for (const name of HEADERS) {
        const value = answer.headers.get(name);
        if (value !== null) response.setHeader(name, value);
      }
      response.end(body);
    } catch (cause) {
      throw new BadGatewayException('the instance died during the request', { cause });
    }
  }
}
