import { createHook } from 'node:async_hooks';
import type { Scheduler } from './scheduler.js';

/**
 * The prefixes of the types of Node's async resources that complete in real time. Output to a terminal or to a parent
 * process is allowed, because no code waits for it.
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

/** Detects operations of the code under test that complete in real time. */
export class RealIoDetector {
  #found: { readonly error: Error; readonly at: number } | undefined;
  // Without hooks for promises Node 24 is faster. Node 20 ignores the option.
  readonly #hook = createHook({
    init: (_id: number, type: string) => {
      if (type === 'PROMISE' || this.#found || !this.scheduler.active) return;
      const resource = RESOURCES.find(([prefix]) => prefix.test(type));
      if (resource)
        this.#found = { error: realIoError(resource[1], type), at: this.scheduler.time };
    },
    ...{ trackPromises: false },
  });

  constructor(private readonly scheduler: Scheduler) {
    // Node opens these streams on first use, which must not count as I/O of the code under test.
    void [process.stdout, process.stderr];
    this.#hook.enable();
  }

  /**
   * The first real I/O that was started, if any: an error whose stack shows the code that started it, and the virtual
   * time at which it was started.
   */
  get found(): { readonly error: Error; readonly at: number } | undefined {
    return this.#found;
  }

  /**
   * Throws if real I/O was started.
   *
   * @throws Error that names the real I/O
   */
  check(): void {
    if (this.#found) throw this.#found.error;
  }

  disable(): void {
    this.#hook.disable();
  }
}

function realIoError(name: string, type: string): Error {
  return new Error(
    `the code under test started real I/O, ${name} (${type}), which virtual time cannot wait for; load modules and files before the simulation, and replace other services by fakes`,
  );
}
