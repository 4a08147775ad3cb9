import { describe, expect } from 'vitest';
import { CoordinationError, ZkClient } from '../../../lib/client/index.js';
import { connectWire } from '../../../lib/client/transport/wire-transport.js';
import { ConnectResponse, OpCode, Stat, Xid } from '../../../lib/protocol/index.js';
import { frameOf } from '../../support/frames.js';
import { memoryInUse } from '../../support/memory.js';
import {
  type Asked,
  type Peer,
  type Script,
  ScriptedServer,
} from '../../support/scripted-server.js';
import { randomFrom } from '../../support/server-script-random.js';
import { afterEach, beforeEach, it } from '../../support/virtual-time.js';

const [FRAMES, SEEDS] = process.env.NIGHTLY ? [10_000, [20_261_121, 7]] : [400, [7]];
/**
 * Most of the time a client waits for its next connection or for the rest of an incomplete frame.
 */
const CLIENTS = 20;
/** The number of operations of a client in flight. */
const AT_ONCE = 4;

const stat = {
  czxid: 1,
  mzxid: 2,
  ctime: 3,
  mtime: 4,
  version: 5,
  cversion: 6,
  aversion: 7,
  ephemeralOwner: 0n,
  dataLength: 8,
  numChildren: 9,
  pzxid: 10,
};

/** Replies as a real server does. */
function answerTo({ xid, type }: Asked): Buffer {
  return frameOf((to) => {
    to.int(xid);
    to.long(11);
    to.int(0);
    if (type === OpCode.create || type === OpCode.sync) to.text('/n0000000001');
    if (type === OpCode.createContainer) to.text('/n');
    if (type === OpCode.getData) to.bytes(Buffer.alloc(32));
    if (type === OpCode.getChildren2) to.vector(['a', 'b'], (name) => to.text(name));
    if (type !== OpCode.create && type !== OpCode.sync && type !== OpCode.delete) {
      Stat.write(stat, to);
    }
  });
}

function eventOf(type: number): Buffer {
  return frameOf((to) => {
    to.int(Xid.watchEvent);
    to.long(-1);
    to.int(0);
    to.int(type);
    to.int(3);
    to.text('/n');
  });
}

describe('A client survives a server whose frames are mutated', () => {
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown) => void unhandled.push(reason);
  beforeEach(() => void process.on('unhandledRejection', onUnhandled));
  afterEach(() => void process.off('unhandledRejection', onUnhandled));

  it.each(SEEDS)(`${FRAMES} of seed %i`, async (seed) => {
    const random = randomFrom(seed);
    const below = (limit: number) => Math.floor(random() * limit);
    let mutated = 0;
    let calm = true;

    const mutate = (original: Buffer): Buffer => {
      mutated++;
      let bytes = Buffer.from(original);
      for (let times = 1 + below(3); times > 0; times--) bytes[below(bytes.length)] = below(256);
      if (random() < 0.2) {
        const value = below(2) ? below(0x7fff_ffff) : -below(200);
        bytes.writeInt32BE(value, below(bytes.length - 4));
      }
      if (random() < 0.1) bytes = bytes.subarray(0, 4 + below(bytes.length - 4));
      if (random() < 0.1) bytes = Buffer.concat([bytes, Buffer.alloc(below(100_000), 7)]);
      // The length is usually right, so that the mutation reaches the content of the frame.
      if (random() < 0.95) bytes.writeInt32BE(bytes.length - 4);
      return bytes;
    };
    const perhaps = (chance: number, bytes: Buffer) =>
      !calm && random() < chance ? mutate(bytes) : bytes;
    const say = (peer: Peer, bytes: Buffer) => {
      if (peer.socket.writable) peer.socket.write(bytes);
    };

    const peers: Peer[] = [];
    const script: Script = {
      onConnect: (peer) => {
        const { timeout, sessionId, password } = peer.hello;
        const greeting = { protocolVersion: 0, timeout, password, readOnly: false };
        const known = sessionId === 0n ? BigInt(1 + below(1e9)) : sessionId;
        const bytes = perhaps(
          0.1,
          frameOf((to) => ConnectResponse.write({ ...greeting, sessionId: known }, to)),
        );
        // A server may grant a long timeout, and the test would have to wait for it.
        if (bytes.length >= 12) bytes.writeInt32BE(timeout, 8);
        say(peer, bytes);
      },
      onRequest: (peer, asked) => {
        if (asked.type === OpCode.closeSession) return void peer.socket.end(answerTo(asked));
        if (random() < 0.1) say(peer, perhaps(0.5, eventOf(1 + below(4))));
        say(peer, perhaps(0.5, answerTo(asked)));
      },
    };
    const open = connectWire(() => ScriptedServer.connect(script, peers));
    const clients = Array.from(
      { length: CLIENTS },
      () =>
        new ZkClient(
          {
            connectString: '127.0.0.1:1',
            sessionTimeout: 1000,
            connectTimeout: 200,
            retry: { type: 'forever', delay: 1 },
          },
          open,
        ),
    );
    await Promise.all(clients.map((client) => client.connect()));
    calm = false;

    const outcomes = new Map<string, number>();
    const note = (outcome: string) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    const asks = async (client: ZkClient) => {
      while (mutated < FRAMES) {
        try {
          const session = await client.session();
          switch (below(6)) {
            case 0:
              await session.create('/n', 'x', { mode: 'ephemeral-sequential' });
              break;
            case 1:
              await session.get('/n', { watch: true });
              break;
            case 2:
              (await session.children('/n', { watch: true })).watch.remove();
              break;
            case 3:
              await session.set('/n', 'x');
              break;
            case 4:
              await session.delete('/n');
              break;
            default:
              await session.exists('/n', { watch: true });
          }
          note('answered');
        } catch (error) {
          if (!(error instanceof CoordinationError)) throw error;
          note(error.code);
        }
      }
    };

    const before = memoryInUse();
    await Promise.all(
      clients.flatMap((client) => Array.from({ length: AT_ONCE }, () => asks(client))),
    );
    expect(peers.length).toBeGreaterThan(FRAMES / 20);
    expect(outcomes.get('answered')).toBeGreaterThan(FRAMES / 20);
    expect(outcomes.get('CONNECTION')).toBeGreaterThan(FRAMES / 20);

    calm = true;
    await Promise.all(clients.map((client) => client.exists('/n')));
    await Promise.all(clients.map((client) => client.close()));
    expect(memoryInUse() - before).toBeLessThan(200_000_000);
    expect(unhandled).toEqual([]);
  });
});
