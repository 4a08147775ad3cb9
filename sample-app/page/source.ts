import type { Hello, RunEvent, Status } from '../live/events.js';

export interface SourceListener {
  onHello: (hello: Hello) => void;
  onEvents: (events: readonly RunEvent[]) => void;
  onStatus: (status: Status) => void;
  /** The connection was lost. A `hello` follows when there is a new one. */
  onDisconnected: () => void;
}

/** Where the events of the page come from: the server of the page, a recorded run or a simulation. */
export interface Source {
  /** Returns a function that disconnects. */
  connect(listener: SourceListener): () => void;
  /** Starts a sale or a scenario, or causes a fault. Resolves with the server's message if it refuses. */
  post(path: string, body?: object): Promise<{ readonly refusal?: string } | undefined>;
  /** The time of the run that is played. Default: time passes as on the page's clock. */
  now?(): number;
  /** Parameters of a link to the run, beside its settings. */
  linkParameters?(): Record<string, string>;
}

let stream: EventSource | undefined;
/** What was posted, until the page shows its effect. */
const pending = new Set<string>();

/** The server of the page. */
export const server: Source = {
  connect({ onHello, onEvents, onStatus, onDisconnected }) {
    const connected = (stream = new EventSource('live/events'));
    const on = <T>(type: string, listener: (data: T) => void) =>
      connected.addEventListener(type, ({ data }: MessageEvent<string>) =>
        listener(JSON.parse(data)),
      );
    on('hello', onHello);
    on('events', onEvents);
    on('status', onStatus);
    connected.addEventListener('error', onDisconnected);
    return () => connected.close();
  },
  async post(path, body = {}) {
    if (pending.has(path)) return undefined;
    pending.add(path);
    try {
      const answer = await fetch(`live/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      if (answer.ok) return undefined;
      const { message } = (await answer.json()) as { message?: string };
      return { refusal: message };
    } catch {
      return {};
    } finally {
      stream?.addEventListener('status', () => pending.delete(path), { once: true });
    }
  },
};
