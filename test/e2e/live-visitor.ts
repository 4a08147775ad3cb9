import { EventEmitter, once } from 'node:events';
import type { Hello, RunEvent, Status } from '../../sample-app/live/events.js';

type EventOf<T extends RunEvent['type']> = RunEvent & { readonly type: T };

/** A client of the live page's server: it receives what a tab of a browser does. */
export class Visitor implements AsyncDisposable {
  hello?: Hello;
  readonly events: RunEvent[] = [];
  readonly statuses: Status[] = [];
  /** Number of events that `next` does not return any more. */
  private seen = 0;
  private readonly received = new EventEmitter<{ message: [] }>();
  private readonly closing = new AbortController();

  private constructor(readonly url: string) {}

  static async open(url: string): Promise<Visitor> {
    const visitor = new Visitor(url);
    const { signal } = visitor.closing;
    const response = await fetch(`${url}/live/events`, { signal });
    void visitor.read(response).catch(() => undefined);
    await visitor.until(() => visitor.hello);
    visitor.seen = visitor.events.length;
    return visitor;
  }

  get status(): Status | undefined {
    return this.statuses.at(-1);
  }

  /** Resolves to the next matching event after the last `post`, and after that of the last call. */
  async next<T extends RunEvent['type']>(
    type: T,
    matches: (event: EventOf<T>) => boolean = () => true,
  ): Promise<EventOf<T>> {
    return this.until(() => {
      while (this.seen < this.events.length) {
        const event = this.events[this.seen++]!;
        if (event.type === type && matches(event as EventOf<T>)) return event as EventOf<T>;
      }
      return undefined;
    });
  }

  /** Resolves to the next status that matches. */
  async nextStatus(matches: (status: Status) => boolean): Promise<Status> {
    const from = this.statuses.length;
    return this.until(() => this.statuses.slice(from).find(matches));
  }

  /** Resolves to the first event of the type that matches, also one that was received before. */
  async find<T extends RunEvent['type']>(
    type: T,
    matches: (event: EventOf<T>) => boolean = () => true,
  ): Promise<EventOf<T>> {
    return this.until(() =>
      this.events.find(
        (event): event is EventOf<T> => event.type === type && matches(event as EventOf<T>),
      ),
    );
  }

  async post(path: string, body: object = {}): Promise<{ status: number; message?: string }> {
    this.seen = this.events.length;
    const response = await fetch(`${this.url}/live/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    const { message } = (text ? JSON.parse(text) : {}) as { message?: string };
    return { status: response.status, ...(message !== undefined && { message }) };
  }

  // oxlint-disable-next-line require-await
  async [Symbol.asyncDispose](): Promise<void> {
    this.closing.abort();
  }

  private async until<T>(find: () => T | undefined): Promise<T> {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      await once(this.received, 'message', { signal: this.closing.signal });
    }
  }

  private async read(response: Response): Promise<void> {
    let text = '';
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      const messages = (text + chunk).split('\n\n');
      text = messages.pop()!;
      for (const message of messages) this.receive(message);
    }
  }

  private receive(message: string): void {
    const type = /^event: (.*)$/m.exec(message)?.[1];
    const data = JSON.parse(/^data: (.*)$/m.exec(message)?.[1] ?? 'null') as unknown;
    if (type === 'hello') {
      this.hello = data as Hello;
      this.events.push(...this.hello.events);
    } else if (type === 'events') {
      this.events.push(...(data as RunEvent[]));
    } else if (type === 'status') {
      this.statuses.push(data as Status);
    }
    this.received.emit('message');
  }
}
