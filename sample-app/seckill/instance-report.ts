import type { ConnectionState } from 'nestjs-zookeeper/recipes';

/** What an instance reports to its parent. */
export interface InstanceReport {
  readonly events: readonly ReportedEvent[];
  /** When the latest request that ZooKeeper has answered was sent, by `monotonicNow()`. */
  readonly confirmedAt?: number;
}

export type ReportedEvent = ReportedLease | ReportedPurchase | ReportedState;

interface Reported {
  /** By `monotonicNow()`. */
  readonly at: number;
}

/** `lease` is unique among all processes. */
export type ReportedLease = Reported & { readonly lease: string; readonly key: string } & (
    | { readonly type: 'requested' | 'released' | 'lost' }
    | { readonly type: 'granted'; readonly token: string }
    | { readonly type: 'not-granted'; readonly reason: string }
  );

/** `purchase` is unique among all processes. */
export type ReportedPurchase = Reported & {
  readonly goodsNo: string;
  readonly purchase: string;
  readonly token?: string;
} & (
    | { readonly type: 'stock-read' | 'stock-written'; readonly stock: number }
    | { readonly type: 'write-refused' }
  );

type ReportedState = Reported &
  (
    | {
        readonly type: 'connection';
        readonly state: ConnectionState;
        readonly session: string | undefined;
      }
    | { readonly type: 'leader'; readonly leads: boolean }
  );
