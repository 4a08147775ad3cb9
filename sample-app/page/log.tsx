import type { Messages } from './messages/messages.js';
import type { LogKind, RunModel } from './run/run-model.js';
import { verdictOf } from './run/verdict.js';

/** Number of the latest lines that are shown. */
const SHOWN = 200;

const BAD: readonly LogKind[] = [
  'lease-lost',
  'write-refused',
  'session-lost',
  'ensemble-silent',
  'died',
  'sale-failed',
];

/** What happened, the latest first, with the times of the server. */
export function Log(props: { messages: Messages; run: RunModel; forgotten: number }) {
  const { messages, run, forgotten } = props;
  const lines = run.log.slice(-SHOWN).toReversed();
  return (
    <section class="log" aria-labelledby="log-title">
      <h2 id="log-title">{messages.log}</h2>
      <div role="log" tabIndex={0} aria-labelledby="log-title">
        {lines.length === 0 && <p class="hint">{messages.emptyLog}</p>}
        <ol>
          {lines.map((line) => {
            const sale = line.sale === undefined ? undefined : run.sales.get(line.sale);
            const verdict = sale && messages.verdict(verdictOf(sale, undefined));
            return (
              <li key={line.id} class={BAD.includes(line.kind) ? 'bad' : ''} data-kind={line.kind}>
                <time>{timeOf(line.at)}</time>
                <span>{messages.logLine(line, verdict)}</span>
              </li>
            );
          })}
        </ol>
        {forgotten > 0 && <p class="hint">{messages.forgotten(forgotten)}</p>}
      </div>
    </section>
  );
}

/** Time since the server started, for example `1:02.34`. */
function timeOf(at: number): string {
  const minutes = Math.floor(at / 60_000);
  return `${minutes}:${((at % 60_000) / 1000).toFixed(2).padStart(5, '0')}`;
}
