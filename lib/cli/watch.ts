import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { ZkClient } from '../client/index.js';
import { isConnectionLoss } from '../kernel/index.js';
import { EventLog, eventLine } from './events.js';
import { toJson, warn } from './output.js';
import { type ListChildren, type Scan, scan, type ScanOptions } from './scan.js';
import { tree, wrap } from './tree.js';

/** Options of `watch`. */
interface WatchOptions extends ScanOptions {
  /** Milliseconds between two reads. */
  readonly every: number;
  readonly json: boolean;
}

/** Shows the reads of a watch. */
interface Output {
  show(read: Scan, signal: AbortSignal): Promise<void> | void;
  setConnected(connected: boolean): void;
}

/**
 * Reads the locks and elections again and again until the signal aborts. A terminal shows them all, a pipe gets the
 * events. A lock that is held or waited for is read each time; the rest of the tree is listed again only after a watch
 * has fired.
 *
 * @param describe returns a sentence about what was scanned
 */
export async function watch(
  client: ZkClient,
  options: WatchOptions,
  signal: AbortSignal,
  describe: (read: Scan) => string,
): Promise<void> {
  const output =
    process.stdout.isTTY && !options.json
      ? new TerminalOutput(describe)
      : new EventOutput(client, options.json, describe);
  let reachable = true;
  const unsubscribe = client.onState(() => {
    if (client.connected === reachable || signal.aborted) return;
    reachable = client.connected;
    output.setConnected(reachable);
  });
  // Rejects the requests that are pending.
  signal.addEventListener('abort', () => void client.close(), { once: true });
  const list = cachedLists(client);
  try {
    while (!signal.aborted) {
      try {
        await output.show(await scan(client, options, list), signal);
      } catch (error) {
        if (signal.aborted) return;
        // The ensemble may be reachable at the next read.
        if (!isConnectionLoss(error)) throw error;
      }
      // It rejects only by the signal.
      await pause(options.every, undefined, { signal }).catch(() => {});
    }
  } finally {
    unsubscribe();
    if (output instanceof TerminalOutput) output.close();
  }
}

/** Returns a function that lists children from a cache, in which a watch keeps each list until it changes. */
function cachedLists(client: ZkClient): ListChildren {
  const cache = new Map<string, readonly string[]>();
  return async (path) => {
    const cached = cache.get(path);
    if (cached) return cached;
    const { children, watch } = await client.watchChildren(path);
    cache.set(path, children);
    void watch.fired.then(() => cache.delete(path));
    return children;
  };
}

/** Draws each read over the last one. */
class TerminalOutput implements Output {
  private last: Scan | undefined;
  private state = '';
  private readonly draw = () => this.redraw();

  constructor(private readonly describe: (read: Scan) => string) {
    process.stdout.on('resize', this.draw);
  }

  show(read: Scan): void {
    this.last = read;
    this.redraw();
  }

  setConnected(connected: boolean): void {
    this.state = connected ? '' : 'connection lost';
    this.redraw();
  }

  close(): void {
    process.stdout.off('resize', this.draw);
  }

  /** Writes a frame at once, and erases only what is behind the end of a line, so that the terminal does not flicker. */
  private redraw(): void {
    // A terminal of unknown size has 0.
    const [columns, rows] = [process.stdout.columns || 80, process.stdout.rows || 24];
    const { last } = this;
    const lines = [
      [new Date().toLocaleTimeString(), this.state].join('  ').trimEnd(),
      ...(last ? wrap(this.describe(last), columns) : []),
      '',
      ...(last?.states.length ? tree(last.states, columns) : ['no holder, waiter or leader']),
    ];
    const more = lines.length - (rows - 1);
    if (more > 0) lines.splice(rows - 2, Infinity, `… ${more + 1} more lines`);
    process.stdout.write(`\x1b[H${lines.map((line) => `${line}\x1b[K\n`).join('')}\x1b[J`);
  }
}

/** Prints the events. */
class EventOutput implements Output {
  private readonly log: EventLog;
  private omissions = '';

  constructor(
    client: ZkClient,
    private readonly json: boolean,
    private readonly describe: (read: Scan) => string,
  ) {
    this.log = new EventLog(client);
  }

  async show(read: Scan, signal: AbortSignal): Promise<void> {
    const events = await this.log.update(read.states);
    // The start of the tree appears and vanishes as locks are used. Only omissions are worth a message.
    const omissions = JSON.stringify([read.unreadable, read.truncated]);
    if (omissions !== this.omissions) warn(this.describe(read));
    this.omissions = omissions;
    const lines = events.map((event) => (this.json ? toJson(event) : eventLine(event)));
    // A slow reader delays the next read.
    if (lines.length > 0 && !process.stdout.write(`${lines.join('\n')}\n`)) {
      await once(process.stdout, 'drain', { signal });
    }
  }

  setConnected(connected: boolean): void {
    warn(connected ? 'connection back' : 'connection lost');
  }
}
