import { once } from 'node:events';
import net from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

// In a thread of its own: the native client's close() blocks its own thread until the server answers.

const pairs = new Set();
let silent = false;
let accepted = 0;
let listener = await listen(0);

function listen(port) {
  const server = net.createServer(join).listen(port, workerData.host);
  return once(server, 'listening').then(() => server);
}

function join(client) {
  accepted++;
  const server = net.connect(workerData.target, '127.0.0.1');
  const pair = { client, server };
  pairs.add(pair);
  const end = () => {
    pairs.delete(pair);
    client.destroy();
    server.destroy();
  };
  client.on('close', end).on('error', end);
  server.on('close', end).on('error', end);
  client.on('data', (chunk) => server.write(chunk));
  server.on('data', (chunk) => client.write(chunk));
  if (silent) for (const socket of [client, server]) socket.pause();
}

function cut() {
  for (const { client, server } of pairs) {
    client.destroy();
    server.destroy();
  }
}

const port = listener.address().port;
const commands = {
  cut,
  async down() {
    if (!listener.listening) return;
    const closed = once(listener, 'close');
    listener.close();
    cut();
    await closed;
  },
  async up() {
    listener = await listen(port);
  },
  silence() {
    silent = true;
    for (const { client, server } of pairs) for (const socket of [client, server]) socket.pause();
  },
  speak() {
    silent = false;
    for (const { client, server } of pairs) for (const socket of [client, server]) socket.resume();
  },
  deafen() {
    for (const { server } of pairs) server.pause();
  },
  accepted: () => accepted,
};

parentPort.on('message', async ({ id, command }) => {
  parentPort.postMessage({ id, result: await commands[command]() });
});
parentPort.postMessage({ port });
