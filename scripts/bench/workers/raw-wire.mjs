// raw-wire.mjs <connect string>: the requests of the fastest possible lock, sent by the wire transport of this library: a
// create and a listing in one round trip, then a delete. It is no lock.
import { randomUUID } from 'node:crypto';
import { connectWire } from '../../../dist/client/transport/wire-transport.js';
import { now } from '../clock.js';
import { drive, loadOf } from './drive.mjs';
import { serve } from './serve.mjs';

const EPHEMERAL_SEQUENTIAL = 3;
const NOTHING = Buffer.alloc(0);
const SESSION_TIMEOUT = 30_000;

const [label] = process.argv.slice(2)[0].split(',');
const [ip, port] = label.split(':');
const transport = await connectWire()({
  address: { host: ip, ip, port: Number(port), label },
  sessionTimeout: SESSION_TIMEOUT,
  authInfo: [],
  signal: new AbortController().signal,
  listener: { onWatch() {}, onDown: (reason) => console.error(`the connection is ${reason}`) },
});
// Other systems take their turns for longer than the session timeout.
setInterval(() => transport.request({ kind: 'sync', path: '/' }, () => {}), SESSION_TIMEOUT / 3);

serve({
  async run({ path, ...parameters }) {
    const load = loadOf(parameters);
    return drive(async (key) => {
      const parent = `${path}/${key}`;
      const [node] = await Promise.all([
        answer({
          kind: 'create',
          path: `${parent}/_c_${randomUUID()}-lock-`,
          data: NOTHING,
          flags: EPHEMERAL_SEQUENTIAL,
          acl: undefined,
          ttl: undefined,
        }),
        answer({ kind: 'children', path: parent, watch: false }),
      ]);
      const granted = now();
      await answer({ kind: 'delete', path: node, version: -1 });
      return granted;
    }, load);
  },
});

/**
 * @param {import('../../../dist/client/transport/transport.js').Request} request
 * @returns {Promise<any>}
 */
function answer(request) {
  return new Promise((resolve, reject) => {
    const isSent = transport.request(request, (code, result) => {
      if (code === 0) resolve(result);
      else reject(new Error(`error ${code}`));
    });
    if (!isSent) reject(new Error('the connection is lost'));
  });
}
