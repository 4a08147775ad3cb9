// A process that buys under a lock, each time in a fenced transaction, and that is paused at random moments.
import mysql from 'mysql2/promise';
import { fence } from 'nestjs-zookeeper/fence';
import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import pg from 'pg';

/** @type {{ zookeeper: string; url: string; path: string; buyer: string; sessionTimeout: number; purchases: number; pauseEvery: number }} */
const { zookeeper, url, path, buyer, sessionTimeout, purchases, pauseEvery } = JSON.parse(
  /** @type {string} */ (process.argv[2]),
);
const client = new ZkClient({ connectString: zookeeper, sessionTimeout });
await client.connect();
const mutex = new Mutex(client, path);
/** @type {any} */
const database = url.startsWith('postgres')
  ? new pg.Client(url)
  : await mysql.createConnection(url);
await database.connect();

/** @param {string} sql */
async function query(sql) {
  const reply = await database.query(sql);
  return Array.isArray(reply) ? reply[0] : reply.rows;
}

/** Nothing of the process runs, and the server does not hear from it, until its session has timed out. */
function pause() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3 * sessionTimeout);
}

// A pause at this moment is the one that only the database can notice: the lease was held when the fence looked.
let pauseBeforeFence = false;
for (const method of ['query', 'execute']) {
  const original = database[method]?.bind(database);
  if (!original) continue;
  Object.assign(database, {
    [method](/** @type {any[]} */ ...args) {
      if (pauseBeforeFence && String(args[0]).includes('INSERT INTO lock_fences')) {
        pauseBeforeFence = false;
        pause();
      }
      return original(...args);
    },
  });
}

/** @param {() => Promise<void>} beforeCommit */
async function buy(beforeCommit) {
  await query('BEGIN');
  try {
    await fence(database);
    const [{ stock }] = await query("SELECT stock FROM goods WHERE id = 'gold'");
    await query(`UPDATE goods SET stock = ${stock - 1} WHERE id = 'gold'`);
    await beforeCommit();
    await query('COMMIT');
  } catch (error) {
    await query('ROLLBACK');
    throw error;
  }
}

const refusals = { STALE_LEASE: 0, LEASE_LOST: 0 };
let bought = 0;
for (let attempt = 1; bought < purchases; attempt++) {
  const isPaused = attempt % pauseEvery === 0;
  const moment = isPaused ? (attempt / pauseEvery) % 3 : undefined;
  try {
    await mutex.withLock(async ({ fencingToken }) => {
      if (moment === 0) pause();
      pauseBeforeFence = moment === 1;
      await buy(async () => {
        if (moment === 2) pause();
        await query(`INSERT INTO purchases (token, buyer) VALUES (${fencingToken}, '${buyer}')`);
      });
    });
    bought++;
  } catch (error) {
    const { code } = /** @type {{ code: keyof typeof refusals }} */ (error);
    if (!(code in refusals)) throw error;
    refusals[code]++;
  }
}
process.stdout.write(JSON.stringify(refusals));
await database.end();
await client.close();
