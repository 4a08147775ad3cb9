import { isCode, NotAuthorizedError, sleep } from '../../../client/index.js';
import type { ErrorReporter } from '../../../kernel/index.js';

/** Milliseconds. */
const MAX_RETRY_DELAY = 60_000;

/** Returns the milliseconds to wait after a number of failures: it doubles, up to a minute, or `retryDelay` if that is longer. */
export function backOff(retryDelay: number, failures: number): number {
  return Math.min(retryDelay * 2 ** (failures - 1), Math.max(retryDelay, MAX_RETRY_DELAY));
}

/** The requests of a consumer that the server refuses until somebody corrects an ACL or deletes a znode. */
export class RefusedRequests {
  constructor(
    private readonly queuePath: string,
    private readonly retryDelay: number,
    private readonly reporter: ErrorReporter,
    private readonly stopping: AbortSignal,
  ) {}

  /**
   * Repeats a request for a child of `parent` while the server refuses it. The ACL of `parent` denies it for all items. So
   * the caller keeps its slot, and the consumer does not handle other items that it cannot delete.
   *
   * @param onNotEmpty called once if the child cannot be deleted because it has children
   * @throws the reason of the signal if the consumer stops
   */
  async repeat<T>(
    parent: string,
    request: () => Promise<T>,
    onNotEmpty: (error: unknown) => void = () => {},
  ): Promise<T> {
    for (let failures = 1; ; failures++) {
      try {
        return await request();
      } catch (error) {
        const isDenied = error instanceof NotAuthorizedError;
        if (!isDenied && !isCode(error, 'NOT_EMPTY')) throw error;
        if (failures === 1) {
          if (isDenied) this.reportDenied(parent, error);
          else onNotEmpty(error);
        }
        await sleep(backOff(this.retryDelay, failures), { signals: [this.stopping] });
      }
    }
  }

  private reportDenied(parent: string, cause: Error): void {
    const message = `a consumer of the queue ${this.queuePath} waits, because the ACL of ${parent} denies the creation or deletion of children: correct the ACL`;
    this.reporter.reportOnce(new NotAuthorizedError(message, { key: parent, cause }));
  }
}
