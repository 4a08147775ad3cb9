// npm run bench:herd -- [options], which --help lists
// Notifications are counted on the wire, by a proxy; wake-ups in the clients, by their watches.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { Mutex, ReadWriteLock, ZkClient } from 'nestjs-zookeeper/recipes';
import { ChildWatchLock, SingleNodeLock } from './herd-locks.mjs';
import { messageOf } from './message-of.mjs';
import { stopAtInterrupt, unlessAborted } from './interrupt.js';
import {
  jsonOption,
  listOption,
  readOptions,
  textOption,
  UsageError,
  wholeNumber,
} from './options.mjs';

const RECIPES = [
  {
    name: 'single node (teaching)',
    herd: true,
    lock: (client, path) => new SingleNodeLock(client, path),
  },
  { name: 'Mutex', herd: false, lock: (client, path) => new Mutex(client, path) },
  {
    name: 'child watch (teaching)',
    herd: true,
    watchesChildren: true,
    lock: (client, path) => new ChildWatchLock(client, path),
  },
  {
    name: 'ReadWriteLock, writers',
    herd: false,
    lock: (client, path) => new ReadWriteLock(client, path).write,
  },
];
const MOST_WAITERS = 100;
const MOST_RUNS = 10;
const TIME_LIMIT = 55_000;
const CHART_WIDTH = 50;

const options = readOptions(
  {
    name: 'bench:herd',
    about: `Measures the herd effect: one holder and n waiters, each with its own session, contend for the locks
for teaching and the real ones. Counts the watch notifications and the waiters that wake when the holder
releases the lock.

The exit code is 0 if a release wakes all n waiters of a lock for teaching, n - 1 of them in vain, and one
waiter of a real lock; 1 if not, and 2 for a wrong option.`,
    options: {
      waiters: listOption(
        `numbers of waiters, at most ${MOST_RUNS}, each from 1 to ${MOST_WAITERS}`,
        '1,10,50,100',
        (name, text) => wholeNumber(name, text, 1, MOST_WAITERS),
      ),
      zookeeper: textOption('HOST:PORT', 'the server; default: an embedded one', checkAddress),
      json: jsonOption,
    },
  },
  ({ waiters }) => {
    if (waiters.length > MOST_RUNS) {
      throw new UsageError(`--waiters must be at most ${MOST_RUNS} numbers, but is ${waiters}`);
    }
  },
);
options.waiters = [...new Set(options.waiters)].sort((a, b) => a - b);
const { stop, forget } = stopAtInterrupt();
const limit = setTimeout(
  () => stop.abort(new Error(`not finished within ${TIME_LIMIT / 1000} s`)),
  TIME_LIMIT,
);
/** Functions that close what was opened. They run in reverse order. */
const cleanUps = [];

async function measure() {
  const address = options.zookeeper ?? (await startServer());
  const wire = await startProxy(address);
  const most = Math.max(...options.waiters);
  const { contenders, cost } = await connectAll(wire, most + 1);
  const server = options.zookeeper ? `ZooKeeper at ${options.zookeeper}` : 'embedded server';
  if (!options.json) printSetting(server, cost);
  const root = `/herd-${randomUUID()}`;
  const results = [];
  for (const waiters of options.waiters) {
    for (const [index, recipe] of RECIPES.entries()) {
      const contest = new Contest(wire, contenders[0], contenders.slice(1, waiters + 1));
      const path = `${root}/${waiters}-${index}`;
      results.push({ recipe: recipe.name, waiters, ...(await contest.run(recipe, path)) });
    }
  }
  return { server, sessions: cost, results, failures: results.flatMap(unexpected) };
}

/** One holder and some waiters on one path. Counts what arrivals and releases cause. */
class Contest {
  constructor(wire, holder, waiters) {
    this.wire = wire;
    this.holder = holder;
    this.waiters = waiters;
  }

  async run({ lock }, path) {
    const total = this.waiters.length;
    let lease = (await this.holder.acquire(lock, path)).lease;
    const [last, ...others] = this.waiters;
    const grants = new Map();
    const queueUp = (waiter) => {
      const grant = waiter.acquire(lock, path);
      grants.set(waiter, grant);
      grant.catch((error) => stop.abort(error));
    };
    others.forEach(queueUp);
    await this.settled(others);
    const arrival = await this.count(others, async () => {
      queueUp(last);
      await this.settled(this.waiters);
    });
    const releases = [];
    for (let waiting = this.waiters; waiting.length > 0;) {
      const before = waiting;
      releases.push(
        await this.count(before, async () => {
          await lease.release();
          const granted = await Promise.race(grants.values());
          lease = granted.lease;
          grants.delete(granted.contender);
          waiting = before.filter((waiter) => waiter !== granted.contender);
          await this.settled(waiting);
        }),
      );
    }
    await lease.release();
    const sum = (field) => releases.reduce((all, release) => all + release[field], 0);
    return {
      arrival,
      release: { ...releases[0], inVain: releases[0].wakeUps - 1 },
      allReleases: {
        notifications: sum('notifications'),
        wakeUps: sum('wakeUps'),
        inVain: sum('wakeUps') - total,
      },
    };
  }

  /** Counts the notifications and wake-ups of `waiters` that `act` causes. */
  async count(waiters, act) {
    const wakeUps = () => waiters.reduce((all, waiter) => all + waiter.wakeUps, 0);
    const notifications = async () => {
      const counts = await this.wire.counts();
      return waiters.reduce((all, waiter) => all + counts[waiter.connection], 0);
    };
    const before = { notifications: await notifications(), wakeUps: wakeUps() };
    await act();
    return {
      notifications: (await notifications()) - before.notifications,
      wakeUps: wakeUps() - before.wakeUps,
    };
  }

  /** Resolves when all `waiters` watch and no notification is on its way to them. */
  async settled(waiters) {
    await Promise.all(waiters.map((waiter) => waiter.watching()));
    // A server sends a notification before the answers to later requests.
    await Promise.all(waiters.map((waiter) => waiter.client.sync('/')));
    await Promise.all(waiters.map((waiter) => waiter.watching()));
  }
}

/** A client that counts how often its watches wake it while it waits for a lock. */
class Contender {
  wakeUps = 0;
  #waiting = false;
  #watches = 0;
  #onWatch = () => {};

  constructor(client, connection) {
    this.client = client;
    this.connection = connection;
  }

  async connect() {
    await this.client.connect();
    const session = await this.client.session();
    for (const operation of ['get', 'children']) {
      const original = session[operation];
      session[operation] = async (...args) => {
        const answer = await original.apply(session, args);
        if (answer.watch) this.#follow(answer.watch);
        return answer;
      };
    }
  }

  async acquire(lock, path) {
    this.#waiting = true;
    try {
      const lease = await lock(this.client, path).acquire({ signal: stop.signal });
      return { contender: this, lease };
    } finally {
      this.#waiting = false;
    }
  }

  /** Resolves when at least one watch is set. */
  async watching() {
    while (this.#watches === 0)
      await /** @type {Promise<void>} */ (new Promise((resolve) => (this.#onWatch = resolve)));
  }

  #follow(watch) {
    this.#watches++;
    this.#onWatch();
    const over = () => {
      this.#watches -= counted;
      counted = 0;
    };
    let counted = 1;
    const { remove } = watch;
    watch.remove = () => {
      over();
      remove();
    };
    void watch.fired.then(() => {
      over();
      if (this.#waiting) this.wakeUps++;
    });
  }
}

/** Returns the numbers of a result that differ from the descriptions of the recipes. */
function unexpected({ recipe, waiters, arrival, release, allReleases }) {
  const { herd = false, watchesChildren = false } =
    RECIPES.find(({ name }) => name === recipe) ?? {};
  const woken = herd ? waiters : 1;
  const overall = herd ? (waiters * (waiters + 1)) / 2 : waiters;
  return [
    ['notifications of an arrival', arrival.notifications, watchesChildren ? waiters - 1 : 0],
    ['notifications of a release', release.notifications, woken],
    ['wake-ups of a release', release.wakeUps, woken],
    ['wake-ups in vain of a release', release.inVain, woken - 1],
    ['notifications of all releases', allReleases.notifications, overall],
    ['wake-ups of all releases', allReleases.wakeUps, overall],
  ]
    .filter(([, measured, claimed]) => measured !== claimed)
    .map(
      ([what, measured, claimed]) =>
        `${recipe}, ${waiters} waiters: ${measured} ${what}, not ${claimed}`,
    );
}

async function startServer() {
  const server = await EmbeddedZooKeeper.start();
  cleanUps.push(() => server.stop());
  return server.connectString;
}

async function startProxy(address) {
  const at = address.lastIndexOf(':');
  const worker = new Worker(new URL('herd-proxy.mjs', import.meta.url), {
    workerData: { host: address.slice(0, at), port: Number(address.slice(at + 1)) },
  });
  cleanUps.push(() => worker.terminate());
  const [port] = await once(worker, 'message');
  return {
    connectString: `127.0.0.1:${port}`,
    /** Notifications so far, one number for each connection. */
    async counts() {
      worker.postMessage('counts');
      const [counts] = await once(worker, 'message');
      return counts;
    },
  };
}

/** Connects one client after the other, so that the proxy has the connections in the same order. */
async function connectAll(wire, total) {
  const contenders = [];
  cleanUps.push(() => Promise.all(contenders.map(({ client }) => client.close())));
  const start = performance.now();
  const { rss } = process.memoryUsage();
  for (let index = 0; index < total && !stop.signal.aborted; index++) {
    const client = new ZkClient({
      connectString: wire.connectString,
      retry: { type: 'none' },
    });
    const contender = new Contender(client, index);
    contenders.push(contender);
    await contender.connect().catch((cause) => {
      const hint =
        'a ZooKeeper accepts 60 connections of one address; maxClientCnxns raises this limit';
      throw new Error(`connection ${index + 1} of ${total}: ${cause.message} (${hint})`, { cause });
    });
    const connections = (await wire.counts()).length;
    if (connections !== index + 1) throw new Error('a connection broke while others were opened');
  }
  return {
    contenders,
    cost: {
      count: total,
      connectMilliseconds: Math.round(performance.now() - start),
      megabytes: Math.round((process.memoryUsage().rss - rss) / 2 ** 20),
    },
  };
}

function printSetting(server, sessions) {
  console.log(`One holder and n waiters, each with its own session; ${server}.`);
  console.log(
    `${sessions.count} sessions: connected in ${sessions.connectMilliseconds} ms, ${sessions.megabytes} MB.\n`,
  );
}

function print({ results, failures }) {
  /**
   * @typedef {{ notifications: number; wakeUps: number; inVain: number }} Counts
   * @type {[
   *   title: string,
   *   width: number,
   *   cell: (result: { waiters: number; release: Counts; allReleases: Counts; arrival: Counts }) => number,
   * ][]}
   */
  const columns = [
    ['n', 5, ({ waiters }) => waiters],
    ['Notifications', 16, ({ release }) => release.notifications],
    ['Wake-ups', 10, ({ release }) => release.wakeUps],
    ['In vain', 9, ({ release }) => release.inVain],
    ['Wake-ups', 16, ({ allReleases }) => allReleases.wakeUps],
    ['Wake-ups', 16, ({ arrival }) => arrival.wakeUps],
  ];
  const width = Math.max(...RECIPES.map(({ name }) => name.length));
  const line = (first, cells) =>
    first.padEnd(width) + cells.map((cell, i) => String(cell).padStart(columns[i][1])).join('');
  console.log(line('', ['', 'One release:', '', '', 'All releases:', 'One arrival:']));
  console.log(
    line(
      'Recipe',
      columns.map(([title]) => title),
    ),
  );
  for (const result of results) {
    console.log(
      line(
        result.recipe,
        columns.map(([, , cell]) => cell(result)),
      ),
    );
  }
  const most = Math.max(...options.waiters);
  console.log(
    `\nWaiters that wake when the holder releases and ${most} wait (# granted, - in vain):`,
  );
  for (const { recipe, waiters, release } of results) {
    if (waiters !== most) continue;
    const inVain = Math.ceil((release.inVain * (CHART_WIDTH - 1)) / most);
    console.log(`${recipe.padEnd(width)}  #${'-'.repeat(inVain)} ${release.wakeUps}`);
  }
  if (failures.length === 0) {
    console.log(
      '\nA release wakes all n waiters of a lock for teaching, n - 1 of them in vain, and 1 of a real lock.',
    );
  }
}

function checkAddress(name, text) {
  const [, port] = /^[^\s:/,]+:(\d{1,5})$/.exec(text) ?? [];
  if (Number(port) >= 1 && Number(port) <= 65_535) return;
  throw new UsageError(`--${name} must be host:port, but is ${text}`);
}

try {
  const report = await unlessAborted(stop.signal, measure());
  if (options.json) console.log(JSON.stringify(report));
  else print(report);
  for (const failure of report.failures) console.error(`FAILED: ${failure}`);
  process.exitCode = report.failures.length === 0 ? 0 : 1;
} catch (error) {
  console.error(`FAILED: ${messageOf(error)}`);
  process.exitCode = 1;
} finally {
  for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  clearTimeout(limit);
  forget();
}
