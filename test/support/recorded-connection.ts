import { strictEqual } from 'node:assert';
import { type Codec, Empty, type Stat } from '../../lib/protocol/index.js';
import type { RawClient, RawReply } from './raw-client.js';
import type { Recorder } from './server-recorder.js';

/** An error code, or 'any' where the two servers must agree but no test says on which code. */
export type Expected = number | 'any';

/** One connection of a script, which records what the server sends. */
export class RecordedConnection {
  constructor(
    readonly name: string,
    readonly raw: RawClient,
    private readonly recorder: Recorder,
  ) {}

  /** Sends a request of any type with these bytes as its body. */
  async send(type: number, body: Uint8Array, err: Expected): Promise<void> {
    const verbatim: Codec<Uint8Array> = {
      read: () => body,
      write: (bytes, to) => {
        for (const byte of bytes) to.bool(byte !== 0);
      },
    };
    await this.ask(`request ${type}`, err, type, verbatim, body, Empty);
  }

  async closed(): Promise<void> {
    await this.raw.closed;
    this.recorder.note(this.name, 'closed');
  }

  async events(count: number): Promise<void> {
    await this.raw.untilEvents(count);
    strictEqual(this.raw.events.length, count, `${this.name} received more events than ${count}`);
    this.recorder.note(this.name, 'events', this.raw.events.slice());
  }

  /** Returns the body of a reply whose error code must be `err`. */
  async ask<Q, A>(
    ask: string,
    err: Expected,
    type: number,
    codec: Codec<Q>,
    value: Q,
    answer: Codec<A>,
    xid?: number,
  ): Promise<A | undefined> {
    const reply: RawReply<A> = await this.raw.request(type, codec, value, answer, xid);
    this.recorder.note(
      this.name,
      ask,
      reply.err,
      this.recorder.zxid(reply.zxid),
      this.#shared(reply.body),
    );
    if (err !== 'any') strictEqual(reply.err, err, `${this.name}: ${ask}`);
    return reply.body;
  }

  #shared(body: unknown): unknown {
    if (typeof body !== 'object' || body === null) return body;
    const { stat, children, data, ephemerals, clientInfo, results, ...rest } = body as {
      stat?: Stat;
      children?: string[];
      data?: Buffer;
      ephemerals?: string[];
      clientInfo?: { scheme: string; user: string }[];
      results?: unknown[];
    };
    return {
      ...rest,
      ...(stat && { stat: this.recorder.stat(stat) }),
      // The real server lists children in the order of its hash tables, which no client may rely
      // on.
      ...(children && { children: children.toSorted() }),
      ...(ephemerals && { ephemerals: ephemerals.toSorted() }),
      ...(clientInfo && {
        clientInfo: clientInfo.map(({ scheme, user }) => `${scheme} ${user}`).sort(),
      }),
      ...(results && { results: results.map((result) => this.#shared(result)) }),
      ...(data !== undefined && { data: data && Buffer.from(data).toString('latin1') }),
    };
  }
}
