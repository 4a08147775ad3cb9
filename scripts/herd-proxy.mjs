// A proxy between ZooKeeper clients and their server that counts the watch notifications of each connection,
// in the order in which the connections were opened. Runs in its own thread, because the native client's
// close() blocks the calling thread until the server answers.
import { once } from 'node:events';
import net from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { FrameSplitter } from '../dist/protocol/index.js';

const NOTIFICATION = -1;
/** @type {number[]} */
const counts = [];

const listener = net.createServer(join).listen(0, '127.0.0.1');
await once(listener, 'listening');
const { port } = /** @type {net.AddressInfo} */ (listener.address());
parentPort?.on('message', () => parentPort?.postMessage(counts));
parentPort?.postMessage(port);

function join(client) {
  const server = net.connect(workerData.port, workerData.host);
  const end = () => {
    client.destroy();
    server.destroy();
  };
  client.on('close', end).on('error', end).setNoDelay();
  server.on('close', end).on('error', end).setNoDelay();
  client.on('data', (chunk) => server.write(chunk));

  const frames = new FrameSplitter();
  let connection;
  server.on('data', (chunk) => {
    frames.push(chunk);
    for (let frame = frames.next(); frame; frame = frames.next()) {
      // The first frame answers the handshake and has no header. A client that only probes the port
      // never receives one.
      if (connection === undefined) connection = counts.push(0) - 1;
      else if (frame.readInt32BE(0) === NOTIFICATION) counts[connection]++;
    }
    client.write(chunk);
  });
}
