/** Identifies the running process while the simulator runs several of them in one; otherwise undefined. */
let currentProcess: (() => object | undefined) | undefined;

/** State that exists once per process, such as a timer that all locks share. */
export class ProcessState<T> {
  #only: T | undefined;
  readonly #byProcess = new WeakMap<object, T>();

  constructor(private readonly create: () => T) {}

  get current(): T {
    const process = currentProcess?.();
    if (!process) return (this.#only ??= this.create());
    let state = this.#byProcess.get(process);
    if (!state) this.#byProcess.set(process, (state = this.create()));
    return state;
  }
}

/**
 * Gives each simulated process its own state.
 *
 * @param current returns the process whose code is running, or undefined for code that is not simulated; undefined ends
 *   the separation
 */
export function separateProcesses(current: (() => object | undefined) | undefined): void {
  currentProcess = current;
}

/** Returns whether the running code belongs to a simulated process. */
export function isSimulated(): boolean {
  return currentProcess?.() !== undefined;
}

/** Returns whether a process of this host runs. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs under another user.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
