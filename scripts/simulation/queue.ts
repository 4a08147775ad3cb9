import { setTimeout as sleep } from 'node:timers/promises';
import type { History } from './history.js';
import { connect, ROOT } from './jobs.js';
import { checkLeft, checkSettled, recordUnexpected } from './properties.js';
import { runWorkload } from './run-seed.js';
import { type Setting, withoutNest } from './setting.js';
import type { RunSeed } from './types.js';
import type { JobContext, Program, Workload } from './workload.js';

/*
 * The workload of a queue: each process puts items and consumes them, some with priorities. Handlers take different times,
 * and some throw an error.
 */

type DistributedQueue = import('nestjs-zookeeper/coordination').DistributedQueue<string>;
type QueueItemContext = import('nestjs-zookeeper/coordination').QueueItemContext;
type World = import('nestjs-zookeeper/testing').World;

const PATH = `${ROOT}/queue`;
/** The average number of milliseconds between two puts of a process. */
const PUT_PAUSE = 150;
/** The interval in milliseconds at which a handler checks that its item is locked. */
const WORK_STEP = 12;
/** The greatest number of milliseconds that most handlers take. */
const WORK = 40;
/** The probability that a handler takes up to two session timeouts. */
const LONG_WORK_PROBABILITY = 0.03;
const HANDLER_FAILURE_PROBABILITY = 0.05;
const MAX_CONCURRENCY = 3;
const RETRY_DELAY = 30;
/** Milliseconds within which the queue must be empty at the end. */
const DRAIN_LIMIT = 30_000;

/** An item from its put to its last handling. */
interface Item {
  /** `maybe`: the reply to the put was lost. */
  put: 'pending' | 'confirmed' | 'maybe' | 'refused';
  /** The number of handlers that returned without an error. */
  handled: number;
  /** The znodes with which it was handled. */
  readonly znodes: Set<string>;
  /** Whether it has a znode of its own. If not, it is handled again after a failure of another item of the znode. */
  readonly isSingle: boolean;
}

/** More than the items that one put puts. */
const ITEMS_OF_A_LOCK = 100n;

/** What a handler does. */
interface HandlerOptions {
  /** Milliseconds for which it works. */
  readonly work?: number;
  readonly fails?: boolean;
}

class HandlerFailure extends Error {}

/** The items of one run. */
export class Items {
  readonly #items = new Map<string, Item>();
  /** The token of the next item under each lock. A lock is identified by its signal. */
  readonly #tokens = new WeakMap<AbortSignal, bigint>();
  #locks = 0n;

  /** Puts items, one at a time, until the run accepts no more work. */
  async produce(
    put: (ids: readonly string[]) => Promise<string>,
    context: JobContext,
  ): Promise<void> {
    const { acceptsWork, incarnation, random, world } = context;
    for (let count = 0; acceptsWork(); count++) {
      await sleep(random.between(0, 2 * PUT_PAUSE));
      if (!acceptsWork()) return;
      const name = `${incarnation.name}-${Math.round(world.now)}-${count}`;
      const ids = Array.from(
        { length: random.pick([1, 1, 1, 3]) },
        (_, index) => `${name}-${index}`,
      );
      await this.put(ids, put, context);
    }
  }

  /** Puts items at once. */
  async put(
    ids: readonly string[],
    put: (ids: readonly string[]) => Promise<string>,
    context: JobContext,
  ): Promise<void> {
    const { BadOptionError, ConnectionError, CoordinationError, SessionExpiredError } =
      context.library.recipes;
    const isSingle = ids.length === 1;
    const items = ids.map((): Item => ({
      put: 'pending',
      handled: 0,
      znodes: new Set(),
      isSingle,
    }));
    for (const [index, id] of ids.entries()) this.#items.set(id, items[index]!);
    let result: Item['put'] = 'confirmed';
    try {
      await put(ids);
    } catch (error) {
      if (!(error instanceof CoordinationError) || error instanceof BadOptionError) {
        recordUnexpected(error, context);
      }
      const refused =
        error instanceof SessionExpiredError ||
        (error instanceof ConnectionError && !error.maybeApplied);
      result = refused ? 'refused' : 'maybe';
    }
    for (const item of items) item.put = result;
  }

  /** Handles an item. Each option is random by default. */
  async handle(
    id: string,
    context: QueueItemContext,
    job: JobContext,
    options: HandlerOptions = {},
  ): Promise<void> {
    const { history, incarnation, random, setting } = job;
    const item = this.#items.get(id)!;
    const key = `queue/${context.name}`;
    const request = history.recordRequest(incarnation, {
      key,
      path: undefined,
      mode: 'exclusive',
      count: 1,
    });
    item.znodes.add(context.name);
    const lease = {
      get held() {
        return context.held;
      },
      get signal() {
        // Reads the clock, as the signals of leases do.
        void context.held;
        return context.signal;
      },
      fencingToken: this.#nextToken(context.signal),
    };
    const record = history.recordGrant(request, lease);
    const randomWork = () => {
      const isLong = random.chance(LONG_WORK_PROBABILITY);
      return random.between(0, isLong ? 2 * setting.sessionTimeout : WORK);
    };
    const end = job.world.now + (options.work ?? randomWork());
    while (history.recordWork(record) && job.world.now < end) {
      await sleep(random.between(0, 2 * WORK_STEP));
    }
    if (!context.signal.aborted) history.recordReleaseStart(record);
    history.recordReleaseEnd(record);
    if (options.fails ?? (item.isSingle && random.chance(HANDLER_FAILURE_PROBABILITY))) {
      throw new HandlerFailure('the handler fails');
    }
    item.handled++;
  }

  /** Returns a token that rises with each lock, and with each item of a znode under one lock. */
  #nextToken(lock: AbortSignal): bigint {
    const token = this.#tokens.get(lock) ?? ++this.#locks * ITEMS_OF_A_LOCK;
    this.#tokens.set(lock, token + 1n);
    return token;
  }

  check(history: History, isFaultFree: boolean): void {
    for (const [id, { put, handled, znodes }] of this.#items) {
      const violation = (property: string, why: string) =>
        history.recordViolation(property, `the item ${id} (put: ${put}) ${why}`);
      if (put === 'confirmed' && handled === 0) {
        violation('no confirmed item is lost', 'was never handled');
      }
      if (put === 'refused' && znodes.size > 0) {
        violation('a put that was refused puts no item', 'was handled');
      }
      if (znodes.size > 1) {
        violation('a put creates one znode', `was handled as ${[...znodes].join(' and ')}`);
      }
      if (isFaultFree && (put !== 'confirmed' || handled !== 1)) {
        violation('without faults, each item is handled once', `was handled ${handled} times`);
      }
    }
  }
}

/** Runs producers and consumers of a queue under the faults of one seed and checks what happened. */
export const runQueue: RunSeed = (library, options) => {
  const items = new Items();
  return runWorkload(
    {
      adjust: withoutNest,
      start: (context) => startQueue(items, context),
      workAfterRecovery: 500,
      checkEnd: (...end) => checkItems(items, ...end),
    },
    library,
    options,
  );
};

async function startQueue(items: Items, context: JobContext): Promise<Program> {
  const { random } = context;
  const maxItems = random.pick([10, Infinity]);
  const { fifo, byPriority, consume, program } = await connectQueues(items, context, maxItems);
  const put = (ids: readonly string[]) =>
    random.chance(0.5)
      ? fifo.putMulti(ids)
      : byPriority.putMulti(ids, { priority: random.whole(-2, 2) });
  const consumers = random.pick([[fifo], [byPriority], [fifo, byPriority]]);
  for (const queue of consumers) consume(queue, random.whole(1, MAX_CONCURRENCY));
  program.finished = items.produce(put, context);
  return program;
}

/** Connects a process to the queue, as one of each kind. Both share the znodes, as they can with Curator. */
export async function connectQueues(items: Items, context: JobContext, maxItems: number) {
  const { DistributedQueue, JSON_SERIALIZER } = context.library.coordination;
  const client = await connect(context);
  const options = { serializer: JSON_SERIALIZER as never, maxItems };
  const fifo: DistributedQueue = new DistributedQueue(client, PATH, options);
  const prioritized = { ...options, prioritized: true };
  const byPriority: DistributedQueue = new DistributedQueue(client, PATH, prioritized);
  const consume = (
    queue: DistributedQueue,
    concurrency: number,
    optionsOf: () => HandlerOptions = () => ({}),
  ) => {
    queue.consume((id, item) => items.handle(id, item, context, optionsOf()), {
      concurrency,
      retryDelay: RETRY_DELAY,
      stopTimeout: 3 * context.setting.sessionTimeout,
      onError: (error) => checkError(error, context),
    });
  };
  const leaveElections = async () => {
    await Promise.all([fifo.close(), byPriority.close()]);
  };
  const program = {
    client,
    finished: Promise.resolve(),
    leaveElections,
    close: async () => {
      await leaveElections();
      await client.close();
    },
  };
  return { fifo, byPriority, consume, program };
}

function checkError(error: Error, context: JobContext): void {
  const { library } = context;
  const { cause } = error;
  const isExpected =
    error instanceof library.coordination.QueueItemError &&
    (cause instanceof HandlerFailure || cause instanceof library.recipes.CoordinationError);
  if (!isExpected) recordUnexpected(error, context);
}

/** Checks that the consumers empty the queue, that no item was lost, and that the processes leave nothing. */
export async function checkItems(
  items: Items,
  world: World,
  history: History,
  workload: Workload,
  setting: Setting,
): Promise<void> {
  checkSettled(history);
  const end = world.now + DRAIN_LIMIT;
  while (world.children(PATH).length > 0 && world.now < end) await world.sleep(WORK_STEP);
  for (const { path } of world.children(PATH)) {
    history.recordViolation('the consumers empty the queue', `${path} was not handled`);
  }
  await checkLeft(world, history, workload, setting);
  items.check(history, setting.faultsUntil === 0);
}
