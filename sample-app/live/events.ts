import type { ConnectionState } from 'nestjs-zookeeper/recipes';

/*
 * The page receives three kinds of server-sent events:
 *
 * - `hello`, data {@link Hello}: the first message of each connection. It replaces all that the page knew.
 * - `events`, data `RunEvent[]`: new events, in the order of their ids.
 * - `status`, data {@link Status}: the present state, five times a second, also while ZooKeeper or the database do not
 *   answer.
 *
 * Instances send their events in batches. An event that was delayed, for example by a pause of its process, has a later
 * id but an earlier time than others: sort by `at`. The last events of a sale may come after its `sale-ended`.
 */

/** Ways to lock the stock. */
export type LockMode = 'none' | 'lock' | 'lingering' | 'strict';

export type Fault = 'pause' | 'cut' | 'kill' | 'expire';

/** The maximum number of buyers, and of items. */
export const MAX_COUNT = 2_000;
/** The maximum number of buyers with a strict lock. Each of them has a znode and a watch of its own. */
export const MAX_STRICT_BUYERS = 500;
/** The maximum delay of a purchase in milliseconds. */
export const MAX_DELAY = 3_000;

/** The settings of a sale. */
export interface SaleSettings {
  readonly buyers: number;
  readonly items: number;
  /** Random milliseconds between reading the stock and writing it. */
  readonly delay: readonly [from: number, to: number];
}

/**
 * What happened in a run. The server of the page, a recorded run and a simulation in the browser all produce
 * these events, and the page is drawn from them alone.
 */
export type RunEvent = RunEventBase &
  (
    | SaleEvent
    | LeaseEvent
    | PurchaseEvent
    | InstanceEvent
    | FaultEvent
    | EnsembleEvent
    | CaptionEvent
  );

interface RunEventBase {
  /** Rises by one from event to event. */
  readonly id: number;
  /** Milliseconds since the server of the page started. All processes use the same monotonic clock. */
  readonly at: number;
}

type SaleEvent =
  | ({
      readonly type: 'sale-started';
      readonly sale: number;
      readonly goods: string;
      readonly mode: LockMode;
      /** Buyers of each instance, instance 1 first. None if the sale could not begin. */
      readonly shares: readonly number[];
    } & SaleSettings)
  | {
      readonly type: 'sale-ended';
      readonly sale: number;
      readonly tally: Tally;
      /** From the database. Absent if it did not answer. */
      readonly stock?: number;
      readonly orders?: number;
      /** Why the sale could not begin. */
      readonly failure?: string;
    };

/** `lease` identifies one acquire in all processes. `sale` is absent for a key that is not that of a sale. */
type LeaseEvent = { readonly instance: number; readonly lease: string; readonly sale?: number } & (
  | { readonly type: 'requested'; readonly key: string }
  | { readonly type: 'granted'; readonly token: string }
  | { readonly type: 'released' | 'lost' }
  | { readonly type: 'not-granted'; readonly reason: string }
);

/** A purchase reads the stock, waits, and writes the stock minus one. */
type PurchaseEvent = {
  readonly instance: number;
  readonly sale: number;
  readonly purchase: string;
} & (
  | { readonly type: 'stock-read'; readonly stock: number; readonly token?: string }
  | { readonly type: 'stock-written'; readonly stock: number; readonly token?: string }
  /** A later holder has written its token: the database refused the write. */
  | { readonly type: 'write-refused'; readonly token: string }
);

type InstanceEvent = { readonly instance: number } & (
  | { readonly type: 'started'; readonly pid: number }
  | { readonly type: 'died' }
  | { readonly type: 'connection'; readonly state: ConnectionState; readonly session?: string }
  | { readonly type: 'leader' }
);

interface FaultEvent {
  readonly type: 'fault' | 'fault-ended';
  readonly fault: Fault;
  /** Absent for a pause of ZooKeeper. */
  readonly instance?: number;
}

/** Whether the ensemble answers the server of the page. */
type EnsembleEvent = { readonly type: 'ensemble'; readonly answers: boolean };

type CaptionEvent = {
  [S in Scenario]: {
    readonly type: 'caption';
    readonly scenario: S;
    readonly caption: Captions[S];
    /** The instance that the caption is about. */
    readonly instance?: number;
  };
}[Scenario];

/**
 * The captions of each scenario in their order. The page has their texts. The last one is `end`, or `aborted` when the
 * scenario was stopped or did not advance in time.
 */
export interface Captions {
  /** Two sales, without a lock and with one. `same-stock`: two buyers without a lock have read the same stock. */
  oversell: 'start' | 'same-stock' | 'end' | 'aborted';
  /** `release`: a holder has released the strict lock, and one waiter was granted it. */
  herd: 'start' | 'queue' | 'release' | 'end' | 'aborted';
  /**
   * `sleep`: the holder was paused between reading and writing the stock. `moved-on`: its session expired, and another
   * instance holds the lock. `wake`: the former holder runs again. `refused`: the fence has refused its write. `lost`:
   * it has noticed that its lease is lost.
   */
  'sleeping-holder':
    'start' | 'sleep' | 'moved-on' | 'wake' | 'refused' | 'lost' | 'end' | 'aborted';
  /** `kill`: the leader was killed. `elected`: another instance leads. `revive`: the killed one starts again. */
  'killed-leader': 'start' | 'kill' | 'elected' | 'revive' | 'end' | 'aborted';
}

export type Scenario = keyof Captions;

/** The events so far, and what this visitor may do. */
export interface Hello {
  /** The server's time, milliseconds since it started. */
  readonly now: number;
  readonly events: readonly RunEvent[];
  /** Number of older events that the server has forgotten: it keeps the last 20,000. */
  readonly forgotten: number;
  /** Whether the visitor may start sales and cause faults: only on the server's machine. */
  readonly canControl: boolean;
  /** Whether sessions can be expired: only on the embedded ZooKeeper. */
  readonly canExpire: boolean;
  /** Whether instances can be paused: not on Windows. */
  readonly canPause: boolean;
}

/** The answers that the buyers of a sale have got so far. The four numbers add up to `buyers`. */
export interface Tally {
  readonly sold: number;
  readonly soldOut: number;
  readonly refused: number;
  readonly unanswered: number;
}

/** The present state, sent several times a second. A state is live only while `confirmedAt` is less than a second old. */
export interface Status {
  readonly at: number;
  readonly ensemble: EnsembleStatus;
  readonly instances: readonly InstanceStatus[];
  /** The sales that started last: one, or two at the same time. */
  readonly sales: readonly SaleStatus[];
  /** The scenario that is running. */
  readonly scenario?: Scenario;
}

export interface EnsembleStatus {
  readonly answers: boolean;
  readonly confirmedAt?: number;
  readonly isPaused?: boolean;
}

export interface InstanceStatus {
  readonly number: number;
  readonly pid?: number;
  readonly life: 'starting' | 'alive' | 'dead';
  readonly faults: readonly Fault[];
  readonly connection?: ConnectionState;
  readonly session?: string;
  /** When the instance last had an answer of the ensemble. */
  readonly confirmedAt?: number;
  readonly leads: boolean;
  /** Whether it holds a lock. A dead holder holds it until its session expires and another instance is granted it. */
  readonly holds: boolean;
  /** When the ensemble expires the session of a holder that is dead, paused or cut off, so that the lock moves on. */
  readonly movesOnAt?: number;
}

export interface SaleStatus {
  readonly sale: number;
  readonly state: 'preparing' | 'selling' | 'over' | 'failed';
  readonly tally: Tally;
  readonly stock?: number;
  readonly orders?: number;
  /** Token of the last locked write. */
  readonly fence?: string;
  /** When the figures of the database were read. */
  readonly confirmedAt?: number;
}
