import { useEffect, useState } from 'preact/hooks';
import type { Language } from '../messages/language.js';
import { type DemoSource, isSeed, MAX_SEED, type RunKind } from './demo-source.js';
import { TEXTS } from './texts.js';

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];

const STYLES: Readonly<Record<RunKind, string>> = {
  simulating: 'connecting',
  simulation: 'live',
  recording: 'live',
  failed: 'bad',
};

/** What the page shows without a server, and the settings of the next simulated run. */
export function DemoBar({ source, language }: { source: DemoSource; language: Language }) {
  const text = TEXTS[language];
  const [kind, setKind] = useState<RunKind>('simulating');
  const [seed, setSeed] = useState(source.seed);
  const [speed, setSpeed] = useState(source.speed);
  const [faults, setFaults] = useState(source.faults);
  useEffect(() => {
    source.onKind = setKind;
  }, [source]);
  useEffect(() => {
    if (isSeed(seed)) source.seed = seed;
    source.language = language;
    source.speed = speed;
    source.faults = faults;
  }, [source, language, seed, speed, faults]);
  return (
    <div class="demo-bar">
      <p class={`link-state ${STYLES[kind]}`} role="status">
        {text[kind]}
      </p>
      <label>
        {text.seed}{' '}
        <input
          type="number"
          min={0}
          max={MAX_SEED}
          value={seed}
          onInput={(event) => setSeed(event.currentTarget.valueAsNumber)}
        />
      </label>
      <button
        type="button"
        class="quiet"
        onClick={() => setSeed(Math.floor(Math.random() * 1_000_000))}
      >
        {text.newSeed}
      </button>
      <label>
        <input
          type="checkbox"
          checked={faults}
          onChange={(event) => setFaults(event.currentTarget.checked)}
        />{' '}
        {text.faults}
      </label>
      <label>
        {text.speed}{' '}
        <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
          {SPEEDS.map((each) => (
            <option value={each} key={each}>
              {each}×
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
