import type { ConnectionState } from 'nestjs-zookeeper';

/** Ways to lock the stock. */
export type LockMode = 'none' | 'lock' | 'lingering' | 'strict';

export type Fault = 'pause' | 'cut' | 'kill' | 'expire';

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
  (SaleEvent | LeaseEvent | PurchaseEvent | InstanceEvent | EnsembleEvent | CaptionEvent);

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
      /** Buyers of each instance, instance 1 first. */
      readonly shares: readonly number[];
    } & SaleSettings)
  | { readonly type: 'sale-ended'; readonly sale: number; readonly failure?: string };

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
  | { readonly type: 'fault' | 'fault-ended'; readonly fault: Fault }
);

/** Whether the ensemble answers the server of the page. */
type EnsembleEvent = { readonly type: 'ensemble'; readonly answers: boolean };

type CaptionEvent = {
  readonly type: 'caption';
  readonly scenario: Scenario;
  readonly caption: string;
};

export type Scenario = 'oversell' | 'herd' | 'sleeping-holder' | 'killed-leader';

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
  readonly ensemble: { readonly answers: boolean; readonly confirmedAt?: number };
  readonly instances: readonly InstanceStatus[];
  readonly sales: readonly SaleStatus[];
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
