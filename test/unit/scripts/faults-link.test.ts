import { once } from 'node:events';
import net from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PlainLink } from '../../support/harness.js';

/** Answers each line with "<line>!". */
let server: net.Server;
let link: PlainLink;
let arrived: string[];
const sockets: net.Socket[] = [];

beforeEach(async () => {
  arrived = [];
  server = net.createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      for (const line of chunk.toString().split('\n').filter(Boolean)) {
        arrived.push(line);
        socket.write(`${line}!\n`);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  link = await PlainLink.to((server.address() as net.AddressInfo).port);
});
afterEach(() => {
  link.close();
  for (const socket of sockets.splice(0)) socket.destroy();
  server.close();
});

async function connect() {
  const [, port] = link.connectString.split(':');
  const socket = net.connect(Number(port), '127.0.0.1').setNoDelay();
  sockets.push(socket);
  const client = { received: '', closed: false, say: (line: string) => socket.write(`${line}\n`) };
  socket.on('data', (chunk) => (client.received += chunk.toString()));
  socket.on('close', () => (client.closed = true)).on('error', () => {});
  await once(socket, 'connect');
  client.say('hello');
  await expect.poll(() => client.received).toBe('hello!\n');
  return client;
}

describe('the link between a client and its server', () => {
  it('drops a reply after the request went through, and breaks the connection', async () => {
    const client = await connect();
    link.dropReply();
    client.say('create');
    await expect.poll(() => client.closed).toBe(true);
    expect(arrived).toEqual(['hello', 'create']);
    expect(client.received).toBe('hello!\n');
    await connect();
  });

  it('drops data from the server but not from the client', async () => {
    const client = await connect();
    link.deafen();
    client.say('one');
    await expect.poll(() => arrived).toContain('one');
    expect(client.received).toBe('hello!\n');
    // New connections work, unless the fault persists.
    await connect();
    link.speak();
    await expect.poll(() => client.received).toBe('hello!\none!\n');
  });

  it('drops data from the client but not from the server', async () => {
    const client = await connect();
    link.mute();
    client.say('one');
    const other = await connect();
    expect(arrived).not.toContain('one');
    expect(other.closed).toBe(false);
    link.speak();
    await expect.poll(() => arrived).toContain('one');
  });
});
