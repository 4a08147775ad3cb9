import { readFile } from 'node:fs/promises';

/**
 * Compares the visits that some processes recorded (workers/section.ts). On each key tokens must rise from
 * visit to visit, within a process and across all of them, and no visit may begin before the one with the
 * next lower token has ended. Resolves with what is wrong.
 *
 * @param files by the name of the process
 */
export async function checkExclusion(files: Readonly<Record<string, string>>): Promise<string[]> {
  const logs = await Promise.all(
    Object.entries(files).map(async ([name, file]) => new Log(name, await readFile(file))),
  );
  const failures = logs.flatMap((log) => log.check());
  if (failures.length > 0) return failures;
  const last = new Map<number, Visit>();
  for (let log = lowest(logs); log; log = lowest(logs)) {
    const before = last.get(log.key);
    if (before) failures.push(...overlap(before, log));
    last.set(log.key, { name: log.name, token: log.token, left: log.left });
    log.next();
  }
  return failures;
}

interface Visit {
  readonly name: string;
  readonly token: bigint;
  /** The time of leaving, in milliseconds. */
  readonly left: number;
}

function overlap(before: Visit, { name, token, entered }: Log): string[] {
  if (token === before.token) return [`token ${token} was given to ${before.name} and to ${name}`];
  if (entered >= before.left) return [];
  const early = (before.left - entered).toFixed(3);
  return [`${name} entered ${early} ms before ${before.name} had left`];
}

/** Returns the log whose next visit has the lowest token; undefined when all have been read. */
function lowest(logs: readonly Log[]): Log | undefined {
  let found: Log | undefined;
  for (const log of logs) if (!log.over && (!found || log.token < found.token)) found = log;
  return found;
}

/** The visits of one process in the order of their tokens, from the file that workers/visits.ts wrote. */
class Log {
  #at = 0;
  readonly #order: Uint32Array;
  readonly #tokens: BigInt64Array;
  readonly #numbers: Float64Array;

  constructor(
    readonly name: string,
    { buffer, byteOffset, byteLength }: Buffer<ArrayBuffer>,
  ) {
    const rows = buffer.slice(byteOffset, byteOffset + byteLength);
    this.#tokens = new BigInt64Array(rows);
    this.#numbers = new Float64Array(rows);
    this.#order = Uint32Array.from({ length: byteLength / 32 }, (_, index) => index);
  }

  /** Checks that tokens rise on each key in the order of the visits. The order across keys is free. */
  check(): string[] {
    const highest = new Map<number, bigint>();
    for (const row of this.#order) {
      const token = this.#tokens[4 * row]!;
      const key = this.#numbers[4 * row + 3]!;
      const before = highest.get(key);
      if (before !== undefined && before >= token) {
        return [`${this.name}: token ${token} came after ${before}`];
      }
      highest.set(key, token);
    }
    if (highest.size > 1) {
      this.#order.sort((a, b) => (this.#tokens[4 * a]! < this.#tokens[4 * b]! ? -1 : 1));
    }
    return [];
  }

  get over(): boolean {
    return this.#at === this.#order.length;
  }

  get token(): bigint {
    return this.#tokens[4 * this.#order[this.#at]!]!;
  }

  get key(): number {
    return this.#column(3);
  }

  get entered(): number {
    return this.#column(1);
  }

  get left(): number {
    return this.#column(2);
  }

  next(): void {
    this.#at++;
  }

  #column(index: number): number {
    return this.#numbers[4 * this.#order[this.#at]! + index]!;
  }
}
