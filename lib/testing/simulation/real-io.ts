import { createHook } from 'node:async_hooks';
import type { Scheduler } from './scheduler.js';

/** Resources of Node that answer in real time. Output to a terminal or a parent process is none of them. */
const REAL =
  /^(TCP|UDP|TLS|PIPE|FSREQ|FSEVENT|STATWATCHER|GETADDRINFO|GETNAMEINFO|QUERY|PROCESS|WORKER|HTTP)/;

/** Notices that the code under test has started something which answers in real time. */
export class RealIo {
  #error: Error | undefined;
  // Node 24 needs no hooks for promises; Node 20 does not know the option.
  readonly #hook = createHook({
    init: (_id: number, type: string) => {
      if (type === 'PROMISE' || !this.scheduler.active || this.#error || !REAL.test(type)) return;
      this.#error = describe(type);
    },
    ...{ trackPromises: false },
  });

  constructor(private readonly scheduler: Scheduler) {
    // Node opens these streams when they are first used, which must not look like I/O of the code under test.
    void [process.stdout, process.stderr];
    this.#hook.enable();
  }

  /** @throws Error whose stack shows where real I/O was started since this object was made */
  check(): void {
    if (this.#error) throw this.#error;
  }

  stop(): void {
    this.#hook.disable();
  }
}

function describe(type: string): Error {
  return new Error(
    `the code under test started real I/O (${type}), which virtual time cannot wait for; load modules and files before the simulation, and replace other services by fakes`,
  );
}
