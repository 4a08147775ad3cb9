import { foreignText, quotedKey } from '../client/errors.js';
import type { Lock, Participant } from '../recipes/index.js';
import type { LeaseTracker } from './lease-tracker.js';

/**
 * Limits after which the log warns.
 *
 * @publicApi
 */
export interface WarnAfter {
  /** Milliseconds that a caller has waited. Infinity: never. Default 30,000. */
  wait?: number | undefined;
  /** Milliseconds that a lease has been held. Infinity: never. Default 30,000. */
  hold?: number | undefined;
}

/** Milliseconds between two checks. */
const MIN_PERIOD = 10;
const MAX_PERIOD = 1000;

/** A warning names at most this number of holders. */
const MAX_NAMED_HOLDERS = 10;

/**
 * Warns once about each wait and each hold that lasts longer than its limit. A periodic check finds them, so an acquire
 * starts no timer and reads no clock. A duration is measured from the first check that sees the wait or hold, so a
 * warning may be up to two periods late.
 */
export class OverdueMonitor {
  private firstSeen = new Map<object, number>();
  private warned = new Set<string>();
  private readonly timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly tracker: LeaseTracker,
    private readonly limits: Required<WarnAfter>,
    private readonly warn: (line: string) => void,
  ) {
    const shortest = Math.min(limits.wait, limits.hold);
    if (shortest === Infinity) return;
    const period = Math.min(MAX_PERIOD, Math.max(MIN_PERIOD, shortest / 4));
    this.timer = setInterval(() => this.check(), period).unref();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private check(): void {
    const { wait, hold } = this.limits;
    // A lease whose znode was deleted by another process is lost without a change of the connection.
    this.tracker.removeLost();
    const now = performance.now();
    const before = this.firstSeen;
    this.firstSeen = new Map();
    const isOverdue = (subject: object, limit: number): boolean => {
      const since = before.get(subject) ?? now;
      this.firstSeen.set(subject, since);
      return now - since >= limit;
    };

    const warnings = new Map<string, () => string | Promise<string>>();
    const callers = new Map<string, number>();
    for (const pending of this.tracker.pending) {
      if (!isOverdue(pending, wait)) continue;
      const { noun, key, locks } = pending.request;
      const name = `${noun} ${quotedKey(key)}`;
      callers.set(name, (callers.get(name) ?? 0) + 1);
      warnings.set(name, async () => {
        const count =
          callers.get(name) === 1
            ? '1 caller of this process has'
            : `${callers.get(name)} callers of this process have`;
        return `${name}: ${count} waited for more than ${wait} ms; ${await describeHolders(locks)}`;
      });
    }
    for (const lease of this.tracker.leases) {
      if (!lease.held || !isOverdue(lease, hold)) continue;
      const { key, path, fencingToken } = lease;
      // A re-entry is a second lease of the same grant: one warning for both.
      warnings.set(
        `${path} ${fencingToken}`,
        () =>
          `${quotedKey(key)} (${foreignText(path)}) has been held by this process for more than ${hold} ms, fencing token ${fencingToken}; limit holds with holdAtMost, or raise warnAfter.hold if this is normal`,
      );
    }
    for (const [subject, line] of warnings) if (!this.warned.has(subject)) void this.report(line);
    // Only what is still overdue: a later wait or hold gets a new warning.
    this.warned = new Set(warnings.keys());
  }

  private async report(line: () => string | Promise<string>): Promise<void> {
    this.warn(await line());
  }
}

async function describeHolders(locks: readonly Pick<Lock, 'participants'>[]): Promise<string> {
  try {
    const participants = (await Promise.all(locks.map((lock) => lock.participants()))).flat();
    const holders = participants.filter(({ state }) => state === 'holding');
    if (holders.length === 0) return 'nobody holds it now';
    const named = holders.slice(0, MAX_NAMED_HOLDERS).map(describeHolder).join(', ');
    const more = holders.length - MAX_NAMED_HOLDERS;
    return `held by ${named}${more > 0 ? ` and ${more} more` : ''}`;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return `reading the holders failed: ${message}`;
  }
}

function describeHolder({ host, pid, text, details, since }: Participant): string {
  const process = host ? `${host}:${pid}` : text || 'an unnamed process';
  const note = [details?.name, details?.text].filter(Boolean).join(', ');
  return `${foreignText(process)}${note && ` (${foreignText(note)})`} since ${since.toISOString()}`;
}
