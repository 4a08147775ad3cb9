import type { ServerKind } from '../../client/index.js';
import type { OperationFacts } from './operations.js';
import { type Check, RUN_AGAIN, type Status } from './report.js';
import type { TokenFacts } from './tokens.js';

/** What the checks have found. */
export interface Facts {
  readonly kind: ServerKind;
  readonly tokens: TokenFacts;
  readonly operations: OperationFacts;
  /** Whether a clock differs too much. */
  readonly isSkewed: boolean;
}

interface Reason {
  readonly status: Exclude<Status, 'ok'>;
  readonly found: string;
  readonly advice: string;
}

type Judge = (facts: Facts) => Reason | undefined;

const UNKNOWN: Reason = {
  status: 'unknown',
  found: 'a check that it depends on ended early',
  advice: RUN_AGAIN,
};

const unlessUnsafeAllowed: Judge = ({ kind }) =>
  kind === 'raftkeeper'
    ? {
        status: 'unsafe',
        found: 'the client refuses RaftKeeper',
        advice:
          'use another server, or set allowUnsafeFencing: true if no resource checks fencing tokens',
      }
    : undefined;

const tokens: Judge = ({ kind, tokens: { pzxidRises, zxidsRise } }) => {
  if (kind === 'raftkeeper') {
    return {
      status: 'unsafe',
      found: 'a fencing token may be lower than an earlier one',
      advice: 'use Apache ZooKeeper or ClickHouse Keeper',
    };
  }
  const rises = kind === 'zookeeper' ? pzxidRises : zxidsRise;
  if (rises === undefined) return UNKNOWN;
  return rises
    ? undefined
    : {
        status: 'unsafe',
        found: 'fencing tokens may repeat',
        advice: 'use Apache ZooKeeper or ClickHouse Keeper',
      };
};

const costlyTokens: Judge = ({ kind }) =>
  kind === 'zookeeper'
    ? undefined
    : {
        status: 'limit',
        found: 'a cold grant takes one more round trip',
        advice: 'use linger for locks that one process takes again and again',
      };

/** Returns the rule of a recipe that uses an operation. */
const uses =
  (operation: keyof OperationFacts, missing: Reason): Judge =>
  ({ operations: { [operation]: support } }) => {
    if (support === 'yes') return undefined;
    return support === 'unknown' ? UNKNOWN : missing;
  };

const sessions = uses('resumes', {
  status: 'limit',
  found: 'a lost connection ends the session, with its leases and ephemeral znodes',
  advice: 'request a short sessionTimeout',
});

const directories = uses('containers', {
  status: 'limit',
  found: 'empty directories remain',
  advice: 'delete empty directories while no application uses locks',
});

const transactions = uses('multi', {
  status: 'unavailable',
  found: 'transactions do not work',
  advice: 'see the check of transactions',
});

const watches = uses('addWatch', {
  status: 'limit',
  found: 'one watch for each znode instead of a recursive one',
  advice: 'keep cached subtrees small',
});

const ttl = uses('ttl', {
  status: 'unavailable',
  found: 'the client cannot create znodes with a TTL there',
  advice: 'use Apache ZooKeeper with zookeeper.extendedTypesEnabled=true on each server',
});

const clocks: Judge = ({ isSkewed }) =>
  isSkewed
    ? {
        status: 'limit',
        found: 'a clock differs, which may change when a TTL ends',
        advice: 'synchronize the clocks with NTP',
      }
    : undefined;

/** After a reconnection, another server may have counted differently. */
const comparedZxids: Judge = ({ tokens: { zxidsRise } }) =>
  zxidsRise
    ? undefined
    : {
        status: 'unsafe',
        found: 'it compares transaction ids, and may miss a change',
        advice: 'use Apache ZooKeeper or ClickHouse Keeper',
      };

const RECIPES: readonly (readonly [recipe: string, ...judges: Judge[]])[] = [
  ['mutex', tokens, costlyTokens, sessions, directories],
  ['read/write lock', tokens, costlyTokens, sessions, directories],
  ['semaphore', unlessUnsafeAllowed, sessions, directories],
  ['leader election', tokens, costlyTokens, sessions, directories],
  ['partitions', tokens, costlyTokens, sessions, directories],
  ['queue', unlessUnsafeAllowed, sessions, directories],
  ['counter', unlessUnsafeAllowed, transactions],
  ['barrier', unlessUnsafeAllowed, sessions, directories],
  ['double barrier', comparedZxids, sessions, directories],
  ['cache', comparedZxids, watches],
  ['group member', unlessUnsafeAllowed, sessions, directories],
  ['persistent node', unlessUnsafeAllowed],
  ['persistent TTL node', unlessUnsafeAllowed, ttl, clocks],
  ['transactions', unlessUnsafeAllowed, transactions],
];

const SEVERITY = ['limit', 'unknown', 'unavailable', 'unsafe'] as const;

/** Says for each recipe whether it is safe there. */
export function checkRecipes(facts: Facts): Check[] {
  return RECIPES.map(([recipe, ...judges]) => {
    const reasons = judges.flatMap((judge) => judge(facts) ?? []);
    const status = SEVERITY.findLast((each) => reasons.some((reason) => reason.status === each));
    if (!status) return { check: 'recipe', subject: recipe, status: 'ok', found: 'safe' };
    // The worst reasons hide the others.
    const worst = [...new Set(reasons)].filter((reason) => reason.status === status);
    return {
      check: 'recipe',
      subject: recipe,
      status,
      found: worst.map(({ found }) => found).join('; '),
      advice: worst.map(({ advice }) => advice).join('; '),
    };
  });
}

/** The same result for each recipe, for example if no server can be used. */
export function sameForAllRecipes(status: Status, found: string, advice: string): Check[] {
  return RECIPES.map(([subject]) => ({ check: 'recipe', subject, status, found, advice }));
}
