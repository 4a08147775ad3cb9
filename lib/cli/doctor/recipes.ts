import type { ServerKind } from '../../client/index.js';
import type { OperationFacts } from './operations.js';
import { type Check, RUN_AGAIN, type Status } from './report.js';
import type { TokenFacts } from './tokens.js';

/** What the checks have found. */
export interface Facts {
  readonly kind: ServerKind;
  readonly tokens: TokenFacts;
  readonly operations: OperationFacts;
  /** Whether the clocks of two servers differ too much. This machine's clock does not change when a TTL ends. */
  readonly isSkewed: boolean;
}

interface Reason {
  readonly status: Exclude<Status, 'ok'>;
  readonly found: string;
  readonly advice: string;
}

type RecipeRule = (facts: Facts) => Reason | undefined;

const UNKNOWN: Reason = {
  status: 'unknown',
  found: 'a check that it depends on ended early',
  advice: RUN_AGAIN,
};

const NOT_ATOMIC: Reason = {
  status: 'unsafe',
  found:
    'transactions, which the client also uses to create and delete several znodes, do not work',
  advice: 'use Apache ZooKeeper or ClickHouse Keeper',
};

const refusedByClient: RecipeRule = ({ kind }) =>
  kind === 'raftkeeper'
    ? {
        status: 'unsafe',
        found: 'the client refuses RaftKeeper',
        advice:
          'use another server, or set allowUnsafeFencing: true if no resource checks fencing tokens',
      }
    : undefined;

const tokens: RecipeRule = ({ kind, tokens: { pzxidRises, zxidsRise } }) => {
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

const costlyTokens: RecipeRule = ({ kind }) =>
  kind === 'zookeeper'
    ? undefined
    : {
        status: 'limit',
        found: 'a cold grant takes one more round trip',
        advice: 'use linger for locks that one process takes again and again',
      };

/** Returns the rule of a recipe that uses an operation. */
const uses =
  (operation: keyof OperationFacts, missing: Reason): RecipeRule =>
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

/**
 * Returns the rule of a recipe that creates or deletes znodes: the client sends those of one moment as a transaction, and one by
 * one only to a server that replies that it has none (lib/client/transport/wire-group.ts).
 *
 * @param missing the reason on such a server
 */
const writes =
  (missing?: Reason): RecipeRule =>
  ({ operations: { multi } }) =>
    ({ yes: undefined, no: missing, unknown: UNKNOWN, broken: NOT_ATOMIC })[multi];

const changes = writes();

const leases = writes({
  status: 'limit',
  found: 'lease.transaction rejects',
  advice: 'let the resources check fencing tokens instead',
});

const transactions = writes({
  status: 'unavailable',
  found: 'the server has no transactions',
  advice: 'use Apache ZooKeeper or ClickHouse Keeper',
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

const clocks: RecipeRule = ({ isSkewed }) =>
  isSkewed
    ? {
        status: 'limit',
        found:
          'the clocks of the servers differ: after a change of the leader, a TTL may end at another time',
        advice: 'synchronize the clocks with NTP',
      }
    : undefined;

/** After a reconnection, another server may have counted differently. */
const comparedZxids: RecipeRule = ({ tokens: { zxidsRise } }) =>
  zxidsRise
    ? undefined
    : {
        status: 'unsafe',
        found: 'it compares transaction ids, and may miss a change',
        advice: 'use Apache ZooKeeper or ClickHouse Keeper',
      };

const RECIPES: readonly (readonly [recipe: string, ...rules: RecipeRule[]])[] = [
  ['mutex', tokens, costlyTokens, leases, sessions, directories],
  ['read/write lock', tokens, costlyTokens, leases, sessions, directories],
  ['semaphore', refusedByClient, leases, sessions, directories],
  ['leader election', tokens, costlyTokens, leases, sessions, directories],
  ['partitions', tokens, costlyTokens, leases, sessions, directories],
  ['queue', refusedByClient, changes, sessions, directories],
  ['counter', refusedByClient, transactions, directories],
  ['barrier', refusedByClient, changes, sessions, directories],
  ['double barrier', comparedZxids, changes, sessions, directories],
  ['cache', comparedZxids, watches],
  ['group member', refusedByClient, changes, sessions, directories],
  ['persistent node', refusedByClient, changes, sessions, directories],
  ['persistent TTL node', refusedByClient, changes, ttl, clocks],
  ['transactions', refusedByClient, transactions],
];

const SEVERITY = ['limit', 'unknown', 'unavailable', 'unsafe'] as const;

/** Says for each recipe whether it is safe there. */
export function checkRecipes(facts: Facts): Check[] {
  return RECIPES.map(([recipe, ...rules]) => {
    const reasons = rules.flatMap((rule) => rule(facts) ?? []);
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
