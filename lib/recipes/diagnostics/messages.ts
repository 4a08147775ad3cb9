import type { Candidate } from '../candidate.js';
import type { LeaseLostError, NotLeaderError } from '../errors.js';
import type { Lock } from '../lock.js';
import type { Term } from '../term.js';

/*
 * What is told on the channels of node:diagnostics_channel. A wait, a hold and a term are the same object in
 * all messages about them, so that whoever listens can keep what it knows of them in a Map.
 */

/**
 * How a grant came about: by a znode of its own, `'cold'`; without the network, from another caller of
 * this process, `'handed-over'`, or by the znode that the last one left, `'lingering'`; beside other
 * readers of this process, `'shared'`; or by a call chain that held the lock already, `'re-entered'`.
 *
 * @publicApi
 */
export type GrantKind = 'cold' | 'handed-over' | 'lingering' | 'shared' | 're-entered';

/** One caller's wait, from the call to what came of it. @publicApi */
export interface Wait {
  readonly lock: Lock;
  /** By `performance.now()`. */
  readonly since: number;
}

/**
 * Channel `nestjs-zookeeper:wait`. Each wait begins and ends once. A re-entry waits for nothing: its
 * `'granted'` comes alone, with a `Wait` of its own.
 *
 * @publicApi
 */
export type WaitMessage =
  | { readonly event: 'began'; readonly wait: Wait }
  | {
      readonly event: 'granted';
      readonly wait: Wait;
      readonly kind: GrantKind;
      /** Milliseconds. */
      readonly duration: number;
    }
  | {
      /** `'busy'`: it would not wait at all. */
      readonly event: 'busy' | 'timed-out' | 'cancelled' | 'failed';
      readonly wait: Wait;
      /** Milliseconds. */
      readonly duration: number;
      /** What the caller gets. */
      readonly error: unknown;
    };

/** A right to a lock, from the grant until its last lease was released, or it was lost. @publicApi */
export interface Hold {
  readonly lock: Lock;
  readonly kind: GrantKind;
  readonly fencingToken: bigint;
  /** By `performance.now()`. */
  readonly since: number;
}

/** Channel `nestjs-zookeeper:hold`. Each hold begins and ends once. @publicApi */
export type HoldMessage =
  | { readonly event: 'began'; readonly hold: Hold }
  | {
      readonly event: 'released';
      readonly hold: Hold;
      /** Milliseconds. */
      readonly duration: number;
    }
  | {
      readonly event: 'lost';
      readonly hold: Hold;
      /** Milliseconds. */
      readonly duration: number;
      readonly reason: LeaseLostError;
    };

/**
 * Channel `nestjs-zookeeper:leader`: a term begins, and ends by the leader's own will, `'resigned'`, or
 * against it, `'demoted'`.
 *
 * @publicApi
 */
export type LeaderMessage =
  | { readonly event: 'elected'; readonly candidate: Candidate; readonly term: Term }
  | {
      readonly event: 'resigned' | 'demoted';
      readonly candidate: Candidate;
      readonly term: Term;
      readonly reason: NotLeaderError;
    };
