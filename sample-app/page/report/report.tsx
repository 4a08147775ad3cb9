// The page of a chaos run or of a simulation. scripts/report-page.mjs puts it and its data into one file.
import { render } from 'preact';
import type { TimelineData } from '../timeline/data.js';
import { ENGLISH } from '../timeline/text.js';
import { Timeline } from '../timeline/timeline.js';
import '../timeline/timeline.css';
import './report.css';

interface Report {
  readonly title: string;
  readonly facts: readonly (readonly [name: string, value: string | number])[];
  readonly timeline: TimelineData;
}

const { holds, waits, interrupted, handOver } = ENGLISH.legend;

const { title, facts, timeline } = JSON.parse(
  document.querySelector('#report-data')!.textContent,
) as Report;

render(
  <>
    <h1>{title}</h1>
    <dl>
      {facts.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
    <ul>
      {timeline.leases.some(({ requested }) => requested !== undefined) && (
        <li class="wait">{waits}</li>
      )}
      <li class="hold">{holds}</li>
      <li class="interrupted">{interrupted}</li>
      <li class="fault">{ENGLISH.fault}</li>
      {timeline.handOvers.length > 0 && <li class="hand-over">{handOver}</li>}
    </ul>
    <Timeline data={timeline} />
  </>,
  document.querySelector('main')!,
);
