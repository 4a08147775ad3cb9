// raw.mjs <connect string>: the requests of the fastest possible lock, sent by the npm package `zookeeper`: a
// create and a listing in one round trip, then a delete. It is no lock.
import { setTimeout as delay } from 'node:timers/promises';
import ZooKeeper from 'zookeeper';
import { now } from '../clock.js';
import { drive, loadOf } from './drive.mjs';
import { serve } from './serve.mjs';

const CONNECTED = 3;
const EPHEMERAL_SEQUENTIAL = 3;
const NOTHING = Buffer.alloc(0);

const [connectString] = process.argv.slice(2);
const { native } = new ZooKeeper({});
native.emit = () => {};
native.init({
  connect: connectString,
  timeout: 30_000,
  debug_level: 0,
  host_order_deterministic: true,
  response_counter_limit: 1e9,
});
while (native.state !== CONNECTED) await delay(10);

serve({
  async run({ path, ...parameters }) {
    const load = loadOf(parameters);
    const parents = Array.from({ length: load.keys }, (_, key) => `${path}/${key}`);
    return drive(async (key) => {
      const [node] = await Promise.all([
        answer((done) =>
          native.a_create(`${parents[key]}/lock-`, NOTHING, EPHEMERAL_SEQUENTIAL, done),
        ),
        answer((done) => native.a_get_children2(parents[key], false, done)),
      ]);
      const granted = now();
      await answer((done) => native.a_delete_(node, -1, done));
      return granted;
    }, load);
  },
});

function answer(send) {
  return new Promise((resolve, reject) => {
    send((code, message, result) => (code === 0 ? resolve(result) : reject(new Error(message))));
  });
}
