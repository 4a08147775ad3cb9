import type { ComponentChildren } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Actions } from './actions.js';
import { LinkState } from './link-state.js';
import { STALE_AFTER, type LiveRun, useLiveRun } from './live-run.js';
import { Log } from './log.js';
import { initialLanguage, type Language, MESSAGES, rememberLanguage } from './messages/language.js';
import type { Messages } from './messages/messages.js';
import { Sales, type ShownSale } from './sales.js';
import { SettingsForm } from './settings-form.js';
import { isValid, linkTo, type Settings, settingsOf } from './settings.js';
import { Share } from './share.js';
import type { Source } from './source.js';

/** Milliseconds. */
const REFUSAL_TIME = 8_000;

interface AppProps {
  source: Source;
  /** Replaces the state of the connection. */
  top?: (language: Language) => ComponentChildren;
}

/** The page. */
export function App({ source, top }: AppProps) {
  const live = useLiveRun(source);
  const { run, hello, status } = live;
  const [language, setLanguage] = useState<Language>(initialLanguage);
  /** What the form contains. */
  const [entered, setEntered] = useState<Settings>(() => settingsOf(location.search));
  const lastValid = useRef(entered);
  if (isValid(entered)) lastValid.current = entered;
  const settings = lastValid.current;
  const [refusal, setRefusal] = useState('');
  const messages = MESSAGES[language];
  useEffect(() => {
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
    document.title = `${messages.title} · nestjs-zookeeper`;
  }, [language, messages]);

  // What happens after a refusal is more important than the refusal.
  const lastStart = run.log.findLast(({ kind }) => kind === 'sale-started' || kind === 'started');
  useEffect(() => setRefusal(''), [run.caption, lastStart?.id]);
  useEffect(() => {
    const timer = setTimeout(() => setRefusal(''), REFUSAL_TIME);
    return () => clearTimeout(timer);
  }, [refusal]);

  const latest = useRef({ messages });
  latest.current.messages = messages;
  const post = useCallback(
    async (path: string, body?: object) => {
      setRefusal('');
      const answer = await source.post(path, body);
      if (answer) setRefusal(answer.refusal ?? latest.current.messages.noAnswer);
    },
    [source],
  );

  const story = storyWithoutSale(live);
  const sales = shownSales(live, settings);
  const isRunning =
    status?.scenario !== undefined ||
    (status?.sales.some(({ state }) => state === 'preparing' || state === 'selling') ?? false);
  const isLive =
    !live.isDisconnected && live.statusAge !== undefined && live.statusAge <= STALE_AFTER;
  const canControl = (hello?.canControl ?? false) && isLive;
  const start = () => {
    const { mode, ...order } = settings;
    return mode === 'both' ? post('both', order) : post('sale', settings);
  };
  const captionText = captionOf(live, sales, messages);
  const isPlaying = captionText !== undefined && !refusal;
  const servers = status?.instances.length ?? 3;
  // The sale that is shown may have other settings: it may be that of a story, of another visitor, or an earlier one.
  const { items, buyers, delay } = sales.find(({ sale }) => sale)?.sale ?? settings;

  return (
    <>
      <header class="top">
        <p class="brand">
          <img
            src={new URL('./icon.svg', import.meta.url).pathname}
            alt=""
            width="20"
            height="20"
          />
          nestjs-zookeeper
        </p>
        {top ? top(language) : <LinkState live={live} messages={messages} />}
        <button
          type="button"
          class="quiet"
          lang={language === 'en' ? 'zh-CN' : 'en'}
          onClick={() => {
            const other = language === 'en' ? 'zh' : 'en';
            setLanguage(other);
            rememberLanguage(other);
          }}
        >
          {messages.language}
        </button>
      </header>
      <main>
        <section class="hero">
          <div>
            <h1>
              {story
                ? messages.scenarioNames[story.scenario]
                : messages.headline(items, buyers, servers)}
            </h1>
            <p class="lead">
              {story
                ? messages.captions['killed-leader'].start(undefined)
                : messages.lead(...delay)}
            </p>
          </div>
          <Actions
            messages={messages}
            mode={settings.mode}
            isRunning={isRunning}
            canControl={canControl}
            canStart={isValid(entered)}
            scenario={status?.scenario}
            onStart={start}
            onScenario={(name) => post(`scenarios/${name}`)}
          />
          <SettingsForm messages={messages} settings={entered} onChange={setEntered} />
        </section>
        <div class="message">
          <div>
            <p class="refusal" role="alert">
              {refusal}
            </p>
            <p class={isPlaying ? 'caption shown' : 'caption'} role="status">
              {!refusal &&
                (isPlaying ? captionText : hello?.canControl === false && messages.onlyHere)}
            </p>
          </div>
          <Share
            messages={messages}
            servers={servers}
            live={live}
            sales={story ? [] : sales}
            link={() => linkTo(settings, location.href, language, source.linkParameters?.())}
          />
        </div>
        <Sales
          live={live}
          messages={messages}
          sales={sales}
          story={story}
          canControl={canControl}
          onAction={(number, action) => post(`instances/${number}/${action}`)}
          onZookeeper={(action) => post(`zookeeper/${action}`)}
        />
        <Log messages={messages} run={run} forgotten={hello?.forgotten ?? 0} />
      </main>
    </>
  );
}

/** The caption of the scenario that is being played, or of the one that played the sale that is shown. */
function captionOf(
  { run: { caption }, status }: LiveRun,
  sales: readonly ShownSale[],
  { captions }: Messages,
): string | undefined {
  const isPast = sales.some(({ sale }) => caption && sale && sale.startedAt > caption.at);
  if (!caption || (isPast && !status?.scenario)) return undefined;
  const texts: Readonly<Record<string, (instance?: number) => string>> = captions[caption.scenario];
  return texts[caption.caption]?.(caption.instance);
}

/** The story that is played, or that was played last, if it is one about the leader: it has no sale. */
function storyWithoutSale({ run: { story, sales }, status }: LiveRun) {
  if (story?.scenario !== 'killed-leader') return undefined;
  const isPast = status?.sales.some(({ sale }) => (sales.get(sale)?.startedAt ?? 0) > story.from);
  return isPast ? undefined : story;
}

/** The sales that the server shows; before the first one, places for those of the settings. */
function shownSales({ run, status }: LiveRun, { mode }: Settings) {
  const sales: ShownSale[] = (status?.sales ?? []).flatMap((each) => {
    const sale = run.sales.get(each.sale);
    return sale ? [{ mode: sale.mode, sale, status: each }] : [];
  });
  if (sales.length > 0) {
    return sales.sort((a, b) => Number(b.mode === 'none') - Number(a.mode === 'none'));
  }
  const modes = mode === 'both' ? (['none', 'lock'] as const) : [mode];
  return modes.map((each): ShownSale => ({ mode: each }));
}
