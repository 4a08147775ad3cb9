import { isError, textOf } from '../client/errors.js';
import { callListener, warn } from '../client/listeners.js';

/** The number of different errors that {@link ErrorReporter.reportOnce} reports until a success. */
const MAX_DIFFERENT = 1000;

/**
 * Passes the errors of a recipe to its `onError`. If the listener throws or rejects, a process warning is emitted.
 *
 * @typeParam C the arguments of the listener after the error
 */
export class ErrorReporter<C extends unknown[] = []> {
  /** The messages of the errors that were reported once. */
  private readonly reported = new Set<string>();

  private readonly onError: (error: Error, ...context: C) => void;

  /** @param onError default: a process warning */
  constructor(onError: ((error: Error, ...context: C) => void) | undefined) {
    this.onError = onError ?? ((...[error]: [Error, ...C]) => warn(error));
  }

  report(error: unknown, ...context: C): void {
    callListener((reported) => this.onError(reported, ...context), asError(error));
  }

  /** Reports an error, unless one with the same message was reported since the last {@link reset}. */
  reportOnce(error: unknown, ...context: C): void {
    const { message } = asError(error);
    if (this.reported.has(message)) return;
    if (this.reported.size > MAX_DIFFERENT) return;
    this.reported.add(message);
    if (this.reported.size > MAX_DIFFERENT) {
      const summary = `more than ${MAX_DIFFERENT} different errors: further ones are not reported until the next success`;
      this.report(
        new Error(`${summary}; the first of them: ${message}`, { cause: error }),
        ...context,
      );
    } else {
      this.report(error, ...context);
    }
  }

  /** Lets {@link reportOnce} report each error again. To be called after a success. */
  reset(): void {
    this.reported.clear();
  }
}

function asError(error: unknown): Error {
  return isError(error) ? error : new Error(textOf(error), { cause: error });
}
