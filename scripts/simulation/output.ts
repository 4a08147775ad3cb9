import { failureText, type Failure } from './failure.js';
import { type Figures, summaryText } from './figures.js';

/** The number of failures that are listed. Further failures are only counted. */
const MAX_LISTED = 100;
/** Milliseconds between two updates of the progress. */
const UPDATE_INTERVAL = 200;

/**
 * Prints the results as text. With `--json`, prints one JSON object as the last line of stdout, and failures to stderr.
 */
export class Output {
  readonly #failures: Failure[] = [];
  #lastUpdate = -Infinity;
  #hasProgress = false;

  constructor(private readonly json: boolean) {}

  /** Prints a line unless the output is JSON. */
  text(text: string): void {
    if (!this.json) console.log(text);
  }

  failure(failure: Failure): void {
    if (this.#failures.length === MAX_LISTED) return;
    this.#failures.push(failure);
    this.#clearProgress();
    const text = failureText(failure);
    if (this.json) console.error(text);
    else console.log(text);
  }

  /** Updates the progress on stderr, if that is a terminal. */
  progress({ seeds, grants, violations }: Figures): void {
    if (!process.stderr.isTTY || performance.now() - this.#lastUpdate < UPDATE_INTERVAL) return;
    this.#lastUpdate = performance.now();
    this.#clearProgress();
    this.#hasProgress = true;
    process.stderr.write(`${seeds} seeds, ${grants} grants, ${violations} violations`);
  }

  /** @param details further properties of the JSON object */
  summary(figures: Figures, details: object): void {
    this.#clearProgress();
    // performance.now() counts from the start of this process.
    const summary = figures.summary(performance.now() / 1000);
    if (!this.json) console.log(summaryText(summary));
    else console.log(JSON.stringify({ ...summary, ...details, failures: this.#failures }));
  }

  #clearProgress(): void {
    if (this.#hasProgress) process.stderr.write('\r\u001b[K');
    this.#hasProgress = false;
  }
}
