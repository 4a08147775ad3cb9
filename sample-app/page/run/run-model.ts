import type {
  Fault,
  LockMode,
  RunEvent,
  SaleSettings,
  Scenario,
  Tally,
} from '../../live/events.js';

/** The state of a run after its events so far. */
export interface RunModel {
  /** Identity of the last event. */
  readonly lastId: number;
  /** Time of the latest event. */
  readonly latest: number;
  readonly instances: ReadonlyMap<number, InstanceModel>;
  readonly sales: ReadonlyMap<number, SaleModel>;
  /** When the ensemble did not answer. */
  readonly silences: readonly Period[];
  readonly log: readonly LogLine[];
  readonly caption?: Extract<RunEvent, { type: 'caption' }>;
  /** The scenario that was played last. */
  readonly story?: StoryModel;
  /** The leaders in the order of their elections. */
  readonly terms: readonly LeaderTerm[];
}

export interface Period {
  readonly from: number;
  readonly until?: number;
}

export interface StoryModel extends Period {
  readonly scenario: Scenario;
}

export interface LeaderTerm extends Period {
  readonly instance: number;
  /** How the term ended: the process died, or noticed that its session had ended. */
  readonly outcome?: 'died' | 'lost';
}

export type InstanceBandKind = 'paused' | 'cut' | 'suspended' | 'lost' | 'dead';

export interface InstanceBand extends Period {
  readonly kind: InstanceBandKind;
}

export interface InstanceModel {
  readonly number: number;
  readonly bands: readonly InstanceBand[];
}

export interface SaleModel extends SaleSettings {
  readonly sale: number;
  readonly mode: LockMode;
  readonly shares: readonly number[];
  readonly startedAt: number;
  readonly end?: SaleEnd;
  readonly leases: ReadonlyMap<string, LeaseModel>;
  readonly purchases: ReadonlyMap<string, PurchaseModel>;
}

export interface SaleEnd {
  readonly at: number;
  readonly tally: Tally;
  readonly stock?: number;
  readonly orders?: number;
  readonly failure?: string;
}

export interface LeaseModel {
  readonly instance: number;
  readonly key: string;
  readonly requestedAt?: number;
  readonly grantedAt?: number;
  readonly endedAt?: number;
  readonly outcome?: 'released' | 'lost' | 'not granted';
  readonly token?: string;
}

export interface PurchaseModel {
  readonly instance: number;
  readonly readAt: number;
  readonly token?: string;
  readonly endedAt?: number;
  readonly outcome?: 'written' | 'refused';
  /** The stock that was written. */
  readonly stock?: number;
}

export type LogKind =
  | 'sale-started'
  | 'sale-ended'
  | 'sale-failed'
  | 'fault'
  | 'fault-ended'
  | 'died'
  | 'started'
  | 'suspended'
  | 'session-lost'
  | 'connected'
  | 'leader'
  | 'ensemble-silent'
  | 'ensemble-answers'
  | 'lease-lost'
  | 'write-refused'
  | 'not-granted'
  | 'moved-on';

/** A line of the log; its words are those of the language. */
export interface LogLine {
  /** Identity of the event. */
  readonly id: number;
  readonly at: number;
  readonly kind: LogKind;
  readonly instance?: number;
  readonly sale?: number;
  readonly mode?: LockMode;
  readonly fault?: Exclude<Fault, 'kill'>;
  readonly token?: string;
  readonly reason?: string;
  /** The instance from which the lock moved on. */
  readonly from?: number;
  /** Number of equal events. */
  readonly count?: number;
}
