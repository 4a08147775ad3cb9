import { type ChildProcess, spawn } from 'node:child_process';

/**
 * Stops a process with SIGSTOP. A shell continues it after the given time, even if this process was killed meanwhile:
 * no process stays stopped.
 */
export class ProcessPause {
  private readonly waker: ChildProcess;

  constructor(
    private readonly pid: number,
    seconds: number,
  ) {
    this.waker = spawn('sh', ['-c', `sleep ${seconds}; kill -CONT ${pid}`], {
      // A process group of its own: Ctrl-C must not end it, and end() ends all of it.
      detached: true,
      stdio: 'ignore',
    });
    this.waker.on('error', () => undefined).unref();
    if (this.waker.pid === undefined)
      throw new Error('the program sh, which ends the pause, did not start');
    signal(pid, 'SIGSTOP');
  }

  end(): void {
    signal(this.pid, 'SIGCONT');
    if (this.waker.exitCode === null && this.waker.pid) signal(-this.waker.pid, 'SIGTERM');
  }
}

/** Sends a signal to a process, or to a process group, that may have ended. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
