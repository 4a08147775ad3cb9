import { setTimeout as sleep } from 'node:timers/promises';
import type { History, LeaseRecord } from './history.js';
import { connect, ROOT } from './jobs.js';
import { checkLeft, checkSettled, recordUnexpected } from './properties.js';
import { runWorkload } from './run-seed.js';
import { type Setting, withoutNest } from './setting.js';
import type { RunSeed } from './types.js';
import type { JobContext, Program, Workload } from './workload.js';

/*
 * The workload of a Partitioner: each process is a member of one group. A handler works on its partition until the signal
 * aborts, and sometimes for a while longer.
 */

type Partition = import('nestjs-zookeeper/coordination').Partition;
type Partitioner = import('nestjs-zookeeper/coordination').Partitioner;
type World = import('nestjs-zookeeper/testing').World;

/** The path of the group below `ROOT`. */
const GROUP = 'group';
const PARTITIONS = 7;
/** The interval in milliseconds at which a handler checks that it owns its partition. */
const WORK_STEP = 17;
/** The greatest number of milliseconds for which a handler continues after its signal has aborted. */
const LONGEST_STOP = 60;
/** The minimum and maximum number of milliseconds after which a member may leave the group and join it again. */
const MEMBERSHIP_TIME = [100, 2_000] as const;
/** The greatest number of milliseconds between leaving the group and joining it again. */
const LONGEST_ABSENCE = 500;
/** Milliseconds within which the members must own all partitions after the last fault and the last change. */
const CONVERGENCE_LIMIT = 5_000;
/**
 * Milliseconds. A client that is closed while it reconnects may leave a connection, which waits so long for the reply to its
 * close.
 */
const CONNECTION_CLOSE_LIMIT = 1_000;
const REBALANCE_DELAYS = [0, 50, 300] as const;

/** The program of a member of the group. */
interface PartitionProgram extends Program {
  /** Returns how many partitions the member owns. */
  owned(): number;
}

/** Runs members of a group of partitions under the faults of one seed and checks what happened. */
export const runPartitions: RunSeed = (library, options) =>
  runWorkload(
    {
      adjust: withoutNest,
      start: startPartitions,
      workAfterRecovery: 500,
      checkEnd: checkPartitions(PARTITIONS),
    },
    library,
    options,
  );

async function startPartitions(context: JobContext): Promise<PartitionProgram> {
  const { acceptsWork, incarnation, random } = context;
  // In some runs a process that is restarted has the id of its last incarnation.
  const id = random.chance(0.5) ? incarnation.name : `${incarnation.name}-${random.whole(1, 1e9)}`;
  const { program, join } = await startMember(context, id, PARTITIONS, () =>
    random.pick(REBALANCE_DELAYS),
  );
  join();
  const leaveAndJoin = async () => {
    while (acceptsWork()) {
      await sleep(random.between(...MEMBERSHIP_TIME));
      if (!acceptsWork() || random.chance(0.5)) continue;
      await program.leaveElections();
      await sleep(random.between(0, LONGEST_ABSENCE));
      if (acceptsWork() || incarnation.shutdownStarted === Infinity) join();
    }
  };
  program.finished = leaveAndJoin();
  return program;
}

/** Connects a member of the group. Returns its program, and the function with which it joins the group. */
export async function startMember(
  context: JobContext,
  id: string,
  partitions: number,
  rebalanceDelay: () => number,
) {
  const { library } = context;
  const client = await connect(context);
  let partitioner: Partitioner | undefined;
  const join = () => {
    const path = `${ROOT}/${GROUP}`;
    partitioner = new library.coordination.Partitioner(
      client,
      path,
      (each) => work(each, context),
      {
        partitions,
        id,
        rebalanceDelay: rebalanceDelay(),
        onError: (error) => checkError(error, context),
      },
    );
    partitioner.start();
  };
  const leaveElections = async () => partitioner?.close();
  const program = {
    client,
    owned: () => partitioner?.owned().length ?? 0,
    finished: Promise.resolve(),
    leaveElections,
    close: async () => {
      await leaveElections();
      await client.close();
      await sleep(CONNECTION_CLOSE_LIMIT);
    },
  };
  return { program, join };
}

class HandlerFailure extends Error {}

/** Works on a partition until its signal aborts. */
async function work(partition: Partition, context: JobContext): Promise<void> {
  const { history, incarnation, library, random } = context;
  if (random.chance(0.05)) throw new HandlerFailure('the handler fails');
  const key = `${GROUP}/partitions/${partition.index}`;
  const path = `${ROOT}/${key}`;
  const request = history.recordRequest(incarnation, { key, path, mode: 'lead', count: 1 });
  const { signal } = partition;
  let record: LeaseRecord | undefined;
  const released = () => {
    const { PartitionReleasedError } = library.coordination;
    if (record && signal.reason instanceof PartitionReleasedError) {
      history.recordReleaseStart(record);
    }
  };
  // Added before the listener of the history, which records a loss.
  signal.addEventListener('abort', released, { once: true });
  record = history.recordGrant(request, leaseOf(partition));
  while (history.recordWork(record)) await sleep(random.between(1, 2 * WORK_STEP));
  if (!signal.aborted) {
    const why = `${incarnation.name} no longer owns ${key}, but the signal did not abort`;
    history.recordViolation('a lost partition aborts its signal', why);
  }
  if (random.chance(0.5)) await sleep(random.between(0, LONGEST_STOP));
  history.recordStop(record);
  history.recordReleaseEnd(record);
}

function leaseOf(partition: Partition) {
  return {
    get held() {
      return partition.owned;
    },
    get signal() {
      return partition.signal;
    },
    fencingToken: partition.fencingToken,
  };
}

function checkError(error: unknown, context: JobContext): void {
  const isExpected =
    error instanceof HandlerFailure || error instanceof context.library.recipes.CoordinationError;
  if (!isExpected) recordUnexpected(error, context);
}

/** Checks that the members own all partitions and are balanced, and that they leave nothing. */
export function checkPartitions(partitions: number) {
  return async (
    world: World,
    history: History,
    workload: Workload,
    setting: Setting,
  ): Promise<void> => {
    checkSettled(history);
    const isBalanced = (counts: readonly number[]) => {
      const owned = counts.reduce((sum, count) => sum + count, 0);
      return owned === partitions && Math.max(...counts) - Math.min(...counts) <= 1;
    };
    const end = world.now + CONVERGENCE_LIMIT;
    let counts = await ownedBy(workload);
    for (; !isBalanced(counts) && world.now < end; counts = await ownedBy(workload)) {
      await world.sleep(WORK_STEP);
    }
    if (!isBalanced(counts)) {
      const why = `of ${partitions} partitions, the members own ${counts.join(', ')}`;
      history.recordViolation('all partitions are owned, and the members are balanced', why);
    }
    await checkLeft(world, history, workload, setting);
  };
}

/** Returns how many partitions each member owns. Whether a partition is owned depends on the clock of its process. */
function ownedBy(workload: Workload): Promise<number[]> {
  return Promise.all(
    workload.running.map(({ process, program }) =>
      process.run(async () => (program as PartitionProgram).owned()),
    ),
  );
}
