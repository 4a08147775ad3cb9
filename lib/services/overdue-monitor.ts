import type { Lock, Participant } from '../recipes/index.js';
import type { Turnstile } from './lease-tracker.js';

/** Milliseconds. */
export interface Limits {
  readonly wait: number;
  readonly hold: number;
}

/** Milliseconds between two looks. */
const SHORTEST = 10;
const LONGEST = 1000;

/** Of a semaphore's holders, the warning names so many. */
const MOST_NAMED = 10;

/**
 * Warns of what has been waited for or held for too long, once each, by a look at all that is open from time
 * to time: a lease costs neither a timer nor a reading of the clock for it. What a look sees for the first
 * time counts from then on, so that a warning comes up to two looks late.
 */
export class Overdue {
  private since = new Map<object, number>();
  private told = new Set<string>();
  private readonly timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly turnstile: Turnstile,
    private readonly limits: Limits,
    private readonly warn: (line: string) => void,
  ) {
    const shortest = Math.min(limits.wait, limits.hold);
    if (shortest === Infinity) return;
    const period = Math.min(LONGEST, Math.max(SHORTEST, shortest / 4));
    this.timer = setInterval(() => this.look(), period).unref();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private look(): void {
    const { wait, hold } = this.limits;
    const now = performance.now();
    const before = this.since;
    this.since = new Map();
    const overdue = (what: object, limit: number): boolean => {
      const since = before.get(what) ?? now;
      this.since.set(what, since);
      return now - since >= limit;
    };

    const lines = new Map<string, () => string | Promise<string>>();
    const callers = new Map<string, number>();
    for (const waiting of this.turnstile.waits) {
      if (!overdue(waiting, wait)) continue;
      const { noun, key, locks } = waiting;
      const what = `${noun} ${JSON.stringify(key)}`;
      callers.set(what, (callers.get(what) ?? 0) + 1);
      lines.set(what, async () => {
        const count = callers.get(what) === 1 ? '1 caller' : `${callers.get(what)} callers`;
        return `${what} has been waited for by ${count} of this process for more than ${wait} ms; ${await holdersOf(locks)}`;
      });
    }
    for (const lease of this.turnstile.leases) {
      if (!lease.held || !overdue(lease, hold)) continue;
      const { key, path, fencingToken } = lease;
      // A re-entry is another lease on the same right.
      lines.set(
        `${path} ${fencingToken}`,
        () =>
          `${JSON.stringify(key)} (${path}) has been held by this process for more than ${hold} ms, fencing token ${fencingToken}; holdAtMost would bound it, warnAfter.hold says what is usual`,
      );
    }
    for (const [what, line] of lines) if (!this.told.has(what)) void this.tell(line);
    // Whoever is no longer overdue is told of again, the next time.
    this.told = new Set(lines.keys());
  }

  private async tell(line: () => string | Promise<string>): Promise<void> {
    this.warn(await line());
  }
}

async function holdersOf(locks: readonly Pick<Lock, 'participants'>[]): Promise<string> {
  try {
    const participants = (await Promise.all(locks.map((lock) => lock.participants()))).flat();
    const holders = participants.filter(({ state }) => state === 'holding');
    if (holders.length === 0) return 'nobody holds it now';
    const more = holders.length > MOST_NAMED ? ` and ${holders.length - MOST_NAMED} more` : '';
    return `held by ${holders.slice(0, MOST_NAMED).map(nameOf).join(', ')}${more}`;
  } catch (error) {
    return `who holds it cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function nameOf({ host, pid, text, details, session, since }: Participant): string {
  const process = host ? `${host}:${pid}` : text || `session 0x${session}`;
  const said = [details?.name, details?.text].filter(Boolean).join(', ');
  return `${process}${said && ` (${said})`} since ${since.toISOString()}`;
}
