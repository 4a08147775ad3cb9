import { useEffect, useState } from 'preact/hooks';
import type { LockMode, SaleStatus } from '../live/events.js';
import { type Action, InstanceHead } from './instance-head.js';
import { Legend } from './legend.js';
import { STALE_AFTER, type LiveRun, unconfirmedSince } from './live-run.js';
import type { Messages } from './messages/messages.js';
import type { RunModel, SaleModel, StoryModel } from './run/run-model.js';
import { leadersOf, type Present, timelineOf } from './run/timeline-data.js';
import { verdictOf } from './run/verdict.js';
import { Zookeeper } from './zookeeper.js';
import type { TimelineData } from './timeline/data.js';
import { LABEL_HEIGHT, LANE_GAP, type LaneSizes } from './timeline/layout.js';
import { Timeline } from './timeline/timeline.js';

/** A sale, or the place for one that has not started. */
export interface ShownSale {
  readonly mode: LockMode;
  readonly sale?: SaleModel;
  readonly status?: SaleStatus;
}

/** Heights of a lane in CSS pixels: beside its buttons, below its buttons, and below its name alone. */
const BESIDE = 140;
const BUTTONS_ABOVE = 100;
const NAME_ABOVE = 50;
const NARROW_BODY = 72;

interface SalesProps {
  live: LiveRun;
  messages: Messages;
  sales: readonly ShownSale[];
  /** A story without a sale: its picture replaces those of sales. */
  story: StoryModel | undefined;
  canControl: boolean;
  onAction: (instance: number, action: Action) => void;
  onZookeeper: (action: 'pause' | 'resume') => void;
}

/** ZooKeeper and the instances, and for each sale its verdict and its timeline. */
export function Sales(props: SalesProps) {
  const { live, messages, sales, story, canControl, onAction } = props;
  const isWide = useMedia('(min-width: 64rem)');
  const numbers = live.status?.instances.map(({ number }) => number) ?? [1, 2, 3];
  const head = (hasButtons: boolean) => (lane: number) => (
    <InstanceHead
      number={numbers[lane]!}
      live={live}
      messages={messages}
      canControl={canControl}
      onAction={hasButtons ? (action) => onAction(numbers[lane]!, action) : undefined}
    />
  );
  const sizesOf = (isLast: boolean): LaneSizes =>
    isWide
      ? { head: 0, body: BESIDE - LABEL_HEIGHT - LANE_GAP }
      : { head: isLast ? BUTTONS_ABOVE : NAME_ABOVE, body: NARROW_BODY };
  const zookeeper = (
    <Zookeeper
      live={live}
      messages={messages}
      canControl={canControl}
      onAction={props.onZookeeper}
    />
  );
  return (
    <section class={`sales ${isWide ? 'wide' : 'narrow'} of-${story ? 1 : sales.length}`}>
      {isWide ? (
        <div class="instances">
          {zookeeper}
          {numbers.map((number, lane) => (
            <div style={{ height: `${BESIDE / 16}rem` }} key={number}>
              {head(true)(lane)}
            </div>
          ))}
        </div>
      ) : (
        zookeeper
      )}
      {story && (
        <article class="sale">
          <header>
            <h2>{messages.scenarioNames[story.scenario]}</h2>
            <p class="verdict neutral" data-over={story.until !== undefined} role="status">
              {messages.leader(live.status?.instances.find(({ leads }) => leads)?.number)}
            </p>
          </header>
          <Timeline
            data={leadersOf(live.run, story, presentOf(live, messages))}
            text={messages.timeline}
            sizes={sizesOf(true)}
            waitStyle="area"
            head={isWide ? () => null : head(true)}
          />
          <Legend mode="leaders" text={messages.timeline} />
        </article>
      )}
      {(story ? [] : sales).map((each, index) => {
        const isLast = index === sales.length - 1;
        return (
          <article class="sale" key={index}>
            <SaleSummary {...each} live={live} messages={messages} />
            <Timeline
              // The zoom of a sale is not that of the next one.
              key={each.sale?.sale}
              data={saleTimeline(live, messages, each.sale)}
              text={messages.timeline}
              sizes={sizesOf(isLast)}
              waitStyle="area"
              head={isWide ? () => null : head(isLast)}
            />
            <Legend mode={each.mode} text={messages.timeline} />
          </article>
        );
      })}
    </section>
  );
}

/** What the page knows now, beside the events. */
function presentOf(live: LiveRun, messages: Messages): Present {
  const instances = live.status?.instances ?? [];
  const since = instances.flatMap((instance): [number, number][] => {
    const from = unconfirmedSince(instance, live);
    return from === undefined ? [] : [[instance.number, from]];
  });
  const numbers = instances.length > 0 ? instances.map(({ number }) => number) : [1, 2, 3];
  const lanes = numbers.map((number) => messages.instance(number));
  return { now: live.now, lanes, unconfirmedSince: new Map(since) };
}

/** The timeline of a sale as the page knows it now. */
export function saleTimeline(
  live: LiveRun,
  messages: Messages,
  sale: SaleModel | undefined,
): TimelineData {
  const present = presentOf(live, messages);
  // Nothing of a sale changes after its end while all is confirmed, except by late reports.
  if (!sale?.end || present.unconfirmedSince.size > 0) return timelineOf(live.run, sale, present);
  const known = ended.get(sale);
  if (known && known.run === live.run && known.messages === messages) return known.data;
  const data = timelineOf(live.run, sale, present);
  ended.set(sale, { run: live.run, messages, data });
  return data;
}

/** Timelines of sales that are over. */
const ended = new WeakMap<SaleModel, { run: RunModel; messages: Messages; data: TimelineData }>();

function SaleSummary(props: ShownSale & { live: LiveRun; messages: Messages }) {
  const { mode, sale, status, live, messages } = props;
  const verdict = sale && verdictOf(sale, status);
  // A sale has no model before it begins.
  const isPreparing = live.status?.sales.some(({ state }) => state === 'preparing');
  const tally = verdict?.tally;
  /** Pieces that were sold although there were none left. */
  const excess = Math.max(0, (tally?.sold ?? 0) - (sale?.items ?? 0));
  const parts = ['sold', 'soldOut', 'refused', 'unanswered'] as const;
  const orders = sale?.end?.orders ?? status?.orders;
  const stock = sale?.end?.stock ?? status?.stock;
  const late = [...(sale?.purchases.values() ?? [])].filter(
    ({ outcome }) => outcome === 'refused',
  ).length;
  const unconnected = live.run.log
    .filter((line) => line.sale === sale?.sale && line.reason === 'no-connection')
    .reduce((sum, { count = 0 }) => sum + count, 0);
  const age = status?.confirmedAt === undefined ? undefined : live.now - status.confirmedAt;
  return (
    <header>
      <h2>{messages.modes[mode].title}</h2>
      <p
        class={`verdict ${verdict?.tone ?? 'none'}`}
        data-kind={verdict?.kind}
        data-sale={sale?.sale}
        data-over={sale?.end !== undefined}
        role="status"
      >
        {verdict
          ? messages.verdict(verdict)
          : isPreparing
            ? messages.preparing
            : messages.modes[mode].notStarted}
      </p>
      <div class="bar" aria-hidden="true">
        {parts.map((part) => (
          <i class={part} style={{ flexGrow: tally?.[part] ?? 0 }}>
            {part === 'sold' && tally && (
              <i class="excess" style={{ width: `${(100 * excess) / Math.max(1, tally.sold)}%` }} />
            )}
          </i>
        ))}
      </div>
      <dl class="tally">
        {parts.map((part) => (
          <div class={part}>
            <dt>{messages.tally[part]}</dt>
            <dd>{tally ? tally[part].toLocaleString() : '–'}</dd>
          </div>
        ))}
      </dl>
      <p class="database">
        {sale && (
          <>
            {messages.database(orders, stock)}
            {late > 0 && ` · ${messages.byFence(late)}`}
            {unconnected > 0 && ` · ${messages.unconnected(unconnected)}`}
            {sale.end?.orders === undefined && age !== undefined && age > STALE_AFTER && (
              <span class="old"> · {messages.lastRead(messages.seconds(age))}</span>
            )}
          </>
        )}
      </p>
    </header>
  );
}

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = () => setMatches(list.matches);
    update();
    list.addEventListener('change', update);
    return () => list.removeEventListener('change', update);
  }, [query]);
  return matches;
}
