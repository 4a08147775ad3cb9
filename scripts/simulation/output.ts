import { failureText, type Failure } from './failure.js';
import { type Figures, summaryText } from './figures.js';

/** Failures that are listed; more of them are only counted. */
const MOST_LISTED = 100;
/** Milliseconds between two updates of the progress. */
const UPDATE = 200;

/** Prints the results as text or, with `--json`, as one object on the last line of stdout, with failures on stderr. */
export class Output {
  readonly #failures: Failure[] = [];
  #lastUpdate = -Infinity;
  #hasProgress = false;

  constructor(private readonly json: boolean) {}

  /** Prints text that `--json` leaves out. */
  text(text: string): void {
    if (!this.json) console.log(text);
  }

  failure(failure: Failure): void {
    if (this.#failures.length === MOST_LISTED) return;
    this.#failures.push(failure);
    this.#clearProgress();
    const text = failureText(failure);
    if (this.json) console.error(text);
    else console.log(text);
  }

  /** Rewrites one line of a terminal. */
  progress({ seeds, grants, violations }: Figures): void {
    if (!process.stderr.isTTY || performance.now() - this.#lastUpdate < UPDATE) return;
    this.#lastUpdate = performance.now();
    this.#clearProgress();
    this.#hasProgress = true;
    process.stderr.write(`${seeds} seeds, ${grants} grants, ${violations} violations`);
  }

  /** @param details further properties of the JSON object */
  summary(figures: Figures, details: object): void {
    this.#clearProgress();
    // Node's clock starts with the process.
    const summary = figures.summary(performance.now() / 1000);
    if (!this.json) console.log(summaryText(summary));
    else console.log(JSON.stringify({ ...summary, ...details, failures: this.#failures }));
  }

  #clearProgress(): void {
    if (this.#hasProgress) process.stderr.write('\r\u001b[K');
    this.#hasProgress = false;
  }
}
