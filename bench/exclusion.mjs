import { readFile } from 'node:fs/promises';

/**
 * Compares the critical sections that some processes noted (workers/section.mjs): on each key tokens
 * must rise from visit to visit, within a process and over all of them, and no visit may begin before
 * the one with the next lower token has ended.
 *
 * @param files by the name of the process
 */
export async function checkExclusion(files) {
  const logs = await Promise.all(
    Object.entries(files).map(async ([name, file]) => new Log(name, await readFile(file))),
  );
  const failures = logs.flatMap((log) => log.check());
  if (failures.length > 0) return failures;
  const last = new Map();
  for (let log = lowest(logs); log; log = lowest(logs)) {
    const before = last.get(log.key);
    if (before) failures.push(...overlap(before, log));
    last.set(log.key, { name: log.name, token: log.token, left: log.left });
    log.next();
  }
  return failures;
}

function overlap(before, { name, token, entered }) {
  if (token === before.token) return [`token ${token} was given to ${before.name} and to ${name}`];
  if (entered >= before.left) return [];
  const early = (before.left - entered).toFixed(3);
  return [`${name} was let in ${early} ms before ${before.name} had left`];
}

/** The one whose next visit has the lowest token. */
function lowest(logs) {
  let found;
  for (const log of logs) if (!log.over && !(log.token >= found?.token)) found = log;
  return found;
}

/** The visits of one process in the order of their tokens: rows of 4 columns (workers/visits.mjs). */
class Log {
  #at = 0;
  #order;
  #tokens;
  #numbers;

  constructor(name, { buffer, byteOffset, byteLength }) {
    this.name = name;
    const rows = buffer.slice(byteOffset, byteOffset + byteLength);
    this.#tokens = new BigInt64Array(rows);
    this.#numbers = new Float64Array(rows);
    this.#order = Uint32Array.from({ length: byteLength / 32 }, (_, index) => index);
  }

  /** In the order in which they came, tokens rise on each key. Several keys have only their own order. */
  check() {
    const highest = new Map();
    for (const row of this.#order) {
      const token = this.#tokens[4 * row];
      const key = this.#numbers[4 * row + 3];
      const before = highest.get(key);
      if (before >= token) return [`${this.name}: token ${token} came after ${before}`];
      highest.set(key, token);
    }
    if (highest.size > 1) {
      this.#order.sort((a, b) => (this.#tokens[4 * a] < this.#tokens[4 * b] ? -1 : 1));
    }
    return [];
  }

  get over() {
    return this.#at === this.#order.length;
  }

  get token() {
    return this.#tokens[4 * this.#order[this.#at]];
  }

  get key() {
    return this.#column(3);
  }

  get entered() {
    return this.#column(1);
  }

  get left() {
    return this.#column(2);
  }

  next() {
    this.#at++;
  }

  #column(index) {
    return this.#numbers[4 * this.#order[this.#at] + index];
  }
}
