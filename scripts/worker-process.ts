import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { messageOf } from './message-of.mjs';

/** Milliseconds that the start of a process may take. */
const START_LIMIT = 180_000;

const FLAGS = [
  // The processes use all cores.
  '--single-threaded',
  // In megabytes. Most objects of a run are short-lived.
  '--max-semi-space-size=64',
];

/** What a process sends: the value of a reply, or the message of the error that it ended with. */
interface Message {
  readonly value?: unknown;
  readonly error?: string;
}

/** A process that replies to one request after the other. A process that has ended is replaced at the next request. */
export class WorkerProcess<Request extends object, Reply> {
  #child: ChildProcess | undefined;
  #closed = false;

  /**
   * @param file the module that the process runs, which calls `serveRequests`
   * @param argument the argument of the process
   */
  constructor(
    private readonly file: string,
    private readonly argument: string,
  ) {}

  /**
   * Starts the process if it does not run.
   *
   * @throws Error if it ends before it is ready
   */
  async start(): Promise<void> {
    if (this.#child) return;
    if (this.#closed) throw new Error('the worker is closed');
    const child = fork(this.file, [this.argument], {
      // A debugger must attach to the process of the command only.
      execArgv: [...process.execArgv.filter((flag) => !flag.startsWith('--inspect')), ...FLAGS],
      serialization: 'advanced',
      // Output of the code under test must not mix with the figures on stdout.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    this.#child = child;
    child.on('error', () => {});
    await this.#nextReply(child, START_LIMIT);
  }

  /**
   * Resolves with the reply. The process is killed if there is none, because what failed may continue there.
   *
   * @param limit milliseconds. Default: no limit
   * @throws Error if the process fails, ends, or does not reply within the limit
   */
  async request(request: Request, limit?: number): Promise<Reply> {
    await this.start();
    const child = this.#child!;
    const reply = this.#nextReply(child, limit);
    child.send(request, () => {});
    return (await reply) as Reply;
  }

  /** Kills the process, and with it a run that has not ended. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#kill();
  }

  async #nextReply(child: ChildProcess, limit?: number): Promise<unknown> {
    try {
      return await new Promise((resolve, reject) => {
        const settle = (problem: string | undefined, value?: unknown) => {
          clearTimeout(timer);
          child.off('message', onMessage).off('exit', onExit);
          if (problem === undefined) resolve(value);
          else reject(new Error(problem));
        };
        const onMessage = ({ error, value }: Message) => settle(error, value);
        const onExit = (code: number | null, signal: string | null) =>
          settle(`its process ended with ${signal ?? `exit code ${code}`}`);
        const timedOut = `its process did not reply within ${(limit ?? 0) / 1000} s`;
        const timer = limit === undefined ? undefined : setTimeout(settle, limit, timedOut);
        child.once('message', onMessage).once('exit', onExit);
        // The process may have ended since its last reply.
        if (hasEnded(child)) onExit(child.exitCode, child.signalCode);
      });
    } catch (error) {
      await this.#kill();
      throw error;
    }
  }

  async #kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (!child || hasEnded(child)) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Replies to the requests that a `WorkerProcess` sends to this process. */
export function serveRequests<Request>(reply: (request: Request) => Promise<unknown>): void {
  // A terminal sends SIGINT to this process too. The command kills its worker processes itself.
  process.on('SIGINT', () => {});
  process.on('disconnect', () => process.exit());
  // Replies contain no stacks, and capturing them would take a tenth of the time.
  Error.stackTraceLimit = 0;
  const send = (message: Message) => void process.send!(message);
  process.on('message', (request: Request) => {
    reply(request).then(
      (value) => send({ value }),
      (error: unknown) => send({ error: messageOf(error) }),
    );
  });
  send({});
}
