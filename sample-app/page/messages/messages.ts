import type { Captions, LockMode, Scenario, Tally } from '../../live/events.js';
import type { LogLine } from '../run/run-model.js';
import type { Verdict } from '../run/verdict.js';
import type { TimelineText } from '../timeline/text.js';

type Caption = {
  [S in Scenario]: Readonly<Record<Captions[S], (instance: number | undefined) => string>>;
};

/** A choice of the settings. */
interface ChoiceTexts {
  readonly name: string;
  readonly hint: string;
}

interface ModeTexts extends ChoiceTexts {
  /** Heading of a sale. */
  readonly title: string;
  /** Subject of a sentence about a sale. */
  readonly sale: string;
  readonly notStarted: string;
}

/** All texts of the page in one language. */
export interface Messages {
  readonly title: string;
  readonly headline: (items: number, buyers: number, servers: number) => string;
  readonly lead: (from: number, to: number) => string;
  readonly run: Readonly<Record<'both' | 'one', string>>;
  readonly running: string;
  readonly scenarios: string;
  readonly scenarioNames: Readonly<Record<Scenario, string>>;
  readonly captions: Caption;
  readonly settings: string;
  readonly lock: string;
  readonly modes: Readonly<Record<LockMode, ModeTexts> & { both: ChoiceTexts }>;
  readonly buyers: string;
  readonly items: string;
  readonly delayFrom: string;
  readonly delayTo: string;
  readonly invalid: string;
  readonly onlyHere: string;
  readonly preparing: string;
  readonly verdict: (verdict: Verdict) => string;
  readonly tally: Readonly<Record<keyof Tally, string>>;
  /** How many late writes the fence refused. */
  readonly byFence: (count: number) => string;
  /** How many requests got no lock because there was no connection. */
  readonly unconnected: (count: number) => string;
  readonly database: (orders: number | undefined, stock: number | undefined) => string;
  readonly lastRead: (age: string) => string;
  readonly instance: (number: number) => string;
  readonly holds: string;
  readonly leads: string;
  /** Undefined: none leads. */
  readonly leader: (instance: number | undefined) => string;
  readonly states: Readonly<
    Record<
      'starting' | 'dead' | 'connected' | 'connecting' | 'suspended' | 'lost' | 'paused',
      string
    >
  >;
  readonly cutOff: string;
  readonly notConfirmed: (age: string) => string;
  /** When the lock of a holder that ZooKeeper does not hear is free. */
  readonly lockFreeIn: (time: string) => string;
  readonly lockFreeSoon: string;
  readonly actions: Readonly<
    Record<'pause' | 'resume' | 'cut' | 'heal' | 'kill' | 'revive' | 'expire', string>
  >;
  /** Name of a button for a screen reader. */
  readonly actionOn: (action: string, instance: number) => string;
  readonly pauseZookeeper: string;
  readonly resumeZookeeper: string;
  /** The states of ZooKeeper. */
  readonly answers: string;
  readonly silentFor: (age: string) => string;
  readonly link: {
    readonly connecting: string;
    readonly live: string;
    readonly noConnection: (age: string) => string;
    readonly silent: (age: string) => string;
    /** The same without the age, for a screen reader. */
    readonly noConnectionNow: string;
    readonly silentNow: string;
  };
  readonly log: string;
  readonly emptyLog: string;
  readonly forgotten: (events: number) => string;
  readonly logLine: (line: LogLine, verdict: string | undefined) => string;
  readonly share: {
    readonly picture: string;
    readonly link: string;
    readonly copied: string;
    readonly shownLink: string;
    readonly fileName: string;
  };
  readonly noAnswer: string;
  /** A duration. */
  readonly seconds: (ms: number) => string;
  /** Name of the other language. */
  readonly language: string;
  readonly timeline: TimelineText;
}

/** Seconds with one digit. */
export const seconds = (ms: number) => (Math.max(0, ms) / 1000).toFixed(1);
