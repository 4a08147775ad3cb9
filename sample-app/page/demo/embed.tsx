// One story with its timeline, for the pages of the documentation: docs/.vitepress/theme/RaceTimeline.vue imports it.
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Legend } from '../legend.js';
import { type Language, MESSAGES } from '../messages/language.js';
import { EMPTY_RUN, reduce } from '../run/model.js';
import type { RunModel } from '../run/run-model.js';
import { timelineOf } from '../run/timeline-data.js';
import { verdictOf } from '../run/verdict.js';
import timelineStyle from '../timeline/timeline.css?inline';
import { Timeline } from '../timeline/timeline.js';
import { isSeed, linkParametersOf, MAX_SEED } from './demo-source.js';
import embedStyle from './embed.css?inline';
import { simulateInWorker } from './simulation.js';
import { STORIES } from './stories.js';
import { TEXTS } from './texts.js';

const HERE = import.meta.url;
/** Height of the bars of a lane in CSS pixels. */
const BODY = 56;

interface StoryProps {
  /** A key of `STORIES`. */
  story: string;
  seed: number;
  language: Language;
}

function Story({ story, seed: first, language }: StoryProps) {
  const text = TEXTS[language];
  const messages = MESSAGES[language];
  const [seed, setSeed] = useState(first);
  const [shown, setShown] = useState(first);
  const [run, setRun] = useState<RunModel>();
  const [state, setState] = useState<'simulating' | 'failed'>();
  const settings = { ...STORIES[story]!, seed };
  const simulate = async () => {
    setState('simulating');
    try {
      const { events } = await simulateInWorker(settings);
      setRun(reduce(EMPTY_RUN, events));
      setShown(seed);
      setState(undefined);
    } catch {
      setState('failed');
    }
  };
  useEffect(() => void simulate(), []);
  const canRun = state !== 'simulating' && isSeed(seed);
  const sale = run?.sales.get(1);
  const late = [...(sale?.purchases.values() ?? [])].filter(({ outcome }) => outcome === 'refused');
  const link = new URLSearchParams({
    lang: language,
    ...linkParametersOf({ ...settings, seed: shown }),
  });
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (canRun) void simulate();
        }}
      >
        <label>
          {text.seed}{' '}
          <input
            type="number"
            min={0}
            max={MAX_SEED}
            required
            value={Number.isNaN(seed) ? '' : seed}
            onInput={(event) => setSeed(event.currentTarget.valueAsNumber)}
          />
        </label>
        <button type="submit" aria-disabled={!canRun}>
          {messages.run.one}
        </button>
        <a href={new URL(`index.html?${link}`, HERE).href}>{text.openDemo}</a>
      </form>
      <p class="result" role="status">
        {state
          ? text[state]
          : sale &&
            [
              messages.verdict(verdictOf(sale, undefined)),
              late.length > 0 && messages.byFence(late.length),
            ]
              .filter(Boolean)
              .join(' · ')}
      </p>
      <Timeline
        data={timelineOf(run ?? EMPTY_RUN, sale, {
          now: run?.latest ?? 0,
          lanes: [1, 2, 3].map(messages.instance),
          unconfirmedSince: new Map(),
        })}
        text={messages.timeline}
        sizes={{ head: 0, body: BODY }}
        waitStyle="area"
      />
      <Legend mode="lock" text={messages.timeline} />
    </>
  );
}

/** Uses the colours that the reader of the site has chosen, instead of those of the system. */
function followSite(sheet: CSSStyleSheet): () => void {
  const schemes = [...sheet.cssRules].filter(
    (rule): rule is CSSMediaRule =>
      rule instanceof CSSMediaRule && rule.conditionText.includes('prefers-color-scheme'),
  );
  const { documentElement } = document;
  const apply = () => {
    const isDark = documentElement.classList.contains('dark');
    for (const { media } of schemes) media.mediaText = isDark ? 'all' : 'not all';
  };
  apply();
  const observer = new MutationObserver(apply);
  observer.observe(documentElement, { attributes: true, attributeFilter: ['class'] });
  return () => observer.disconnect();
}

/** Shows a story in an element, and plays it. Returns a function that removes it. */
export function mount(element: HTMLElement, props: StoryProps): () => void {
  const root = element.attachShadow({ mode: 'open' });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(timelineStyle + embedStyle);
  root.adoptedStyleSheets = [sheet];
  const stopFollowing = followSite(sheet);
  render(<Story {...props} />, root);
  return () => {
    stopFollowing();
    render(null, root);
  };
}
