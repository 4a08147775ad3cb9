import { createHook } from 'node:async_hooks';
import type { Scheduler } from './scheduler.js';

/**
 * Node's resources that answer in real time, by the first letters of their types. Output to a terminal or to a
 * parent process is missing on purpose.
 */
const RESOURCES: readonly [prefix: RegExp, name: string][] = [
  [/^(TCP|TLS)/, 'a socket'],
  [/^UDP/, 'a UDP socket'],
  [/^PIPE/, 'a pipe'],
  [/^HTTP/, 'an HTTP request'],
  [/^FSREQ/, 'a file'],
  [/^(FSEVENT|STATWATCHER)/, 'a file watcher'],
  [/^(GETADDRINFO|GETNAMEINFO|QUERY)/, 'a name look-up'],
  [/^PROCESS/, 'a child process'],
  [/^WORKER/, 'a worker thread'],
];

/** Notices that the code under test has started something which answers in real time. */
export class RealIo {
  #found: { readonly error: Error; readonly at: number } | undefined;
  // Node 24 needs no hooks for promises; Node 20 does not know the option.
  readonly #hook = createHook({
    init: (_id: number, type: string) => {
      if (type === 'PROMISE' || this.#found || !this.scheduler.active) return;
      const resource = RESOURCES.find(([prefix]) => prefix.test(type));
      if (resource) this.#found = { error: describe(resource[1], type), at: this.scheduler.time };
    },
    ...{ trackPromises: false },
  });

  constructor(private readonly scheduler: Scheduler) {
    // Node opens these streams when they are first used, which must not look like I/O of the code under test.
    void [process.stdout, process.stderr];
    this.#hook.enable();
  }

  /**
   * The first real I/O since this object was made: an error whose stack shows where it was started, and the
   * virtual time at that moment.
   */
  get found(): { readonly error: Error; readonly at: number } | undefined {
    return this.#found;
  }

  /** @throws Error where real I/O was started */
  check(): void {
    if (this.#found) throw this.#found.error;
  }

  stop(): void {
    this.#hook.disable();
  }
}

function describe(name: string, type: string): Error {
  return new Error(
    `the code under test started real I/O, ${name} (${type}), which virtual time cannot wait for; load modules and files before the simulation, and replace other services by fakes`,
  );
}
