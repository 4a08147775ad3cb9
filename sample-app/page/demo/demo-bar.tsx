import { useEffect, useState } from 'preact/hooks';
import type { Language } from '../messages/language.js';
import type { DemoSource, RunKind } from './demo-source.js';

const TEXTS = {
  en: {
    simulation: 'Simulated in this browser',
    recording: 'Recorded from real processes',
    seed: 'Seed',
    newSeed: 'New seed',
    faults: 'Random faults',
    speed: 'Speed',
  },
  zh: {
    simulation: '在浏览器中模拟',
    recording: '真实进程的录像',
    seed: '种子',
    newSeed: '换一个种子',
    faults: '随机故障',
    speed: '速度',
  },
} satisfies Record<Language, object>;

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];

/** What the page shows without a server, and the settings of the next simulated run. */
export function DemoBar({ source, language }: { source: DemoSource; language: Language }) {
  const text = TEXTS[language];
  const [kind, setKind] = useState<RunKind>('simulation');
  const [seed, setSeed] = useState(source.seed);
  const [speed, setSpeed] = useState(source.speed);
  const [faults, setFaults] = useState(source.faults);
  useEffect(() => {
    source.onKind = setKind;
  }, [source]);
  useEffect(() => {
    if (Number.isInteger(seed) && seed >= 0) source.seed = seed;
    source.speed = speed;
    source.faults = faults;
  }, [source, seed, speed, faults]);
  return (
    <div class="demo-bar">
      <p class="link-state live" role="status">
        {text[kind]}
      </p>
      <label>
        {text.seed}{' '}
        <input
          type="number"
          min={0}
          max={2 ** 32 - 1}
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
