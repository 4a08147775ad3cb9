import net from 'node:net';
import {
  ConnectRequest,
  ErrorCode,
  FrameSplitter,
  OpCode,
  Reader,
  ReplyHeader,
  type Writer,
  Xid,
} from '../../lib/protocol/index.js';
import { frameOf } from './frames.js';

/** A field of a request. `null` is written as length -1. */
export type Field = number | bigint | string | boolean | null | readonly (readonly Field[])[];

/** A request as it travels: it may violate the protocol. */
export interface RawRequest {
  readonly type: number;
  readonly fields: readonly Field[];
  readonly xid?: number;
}

/** Replies to these contain times and session ids, which differ from server to server. */
const WITH_STAT: ReadonlySet<number> = new Set([
  OpCode.create2,
  OpCode.createContainer,
  OpCode.createTTL,
  OpCode.exists,
  OpCode.getACL,
  OpCode.getChildren2,
  OpCode.getData,
  OpCode.setACL,
  OpCode.setData,
]);

export function request(type: number, ...fields: Field[]): RawRequest {
  return { type, fields };
}

/**
 * Sends the requests over a session of its own, one after the other, and then asks for the root. Returns what the
 * server answered to each in terms that two servers share, up to the end of the connection.
 */
export async function exchange(port: number, requests: readonly RawRequest[]): Promise<string[]> {
  const socket = net.connect(port, '127.0.0.1');
  socket.on('error', () => {});
  const frames = framesOf(socket);
  const send = async (body: (to: Writer) => void) => {
    socket.write(frameOf(body));
    const { value } = await frames.next();
    return value;
  };
  const password = Buffer.alloc(16);
  const handshake = { protocolVersion: 0, lastZxidSeen: 0, timeout: 40_000, sessionId: 0n };
  await send((to) => ConnectRequest.write({ ...handshake, password, readOnly: false }, to));
  const ping = await send((to) => (to.int(Xid.ping), to.int(OpCode.ping)));
  const start = ReplyHeader.read(ping as Reader).zxid;

  const answers: string[] = [];
  const probe = { type: OpCode.exists, fields: ['/', false], xid: 1_000 };
  for (const [i, { type, fields, xid = i + 1 }] of [...requests, probe].entries()) {
    const reply = await send((to) => {
      to.int(xid);
      to.int(type);
      for (const field of fields) write(field, to);
    });
    if (!reply) {
      answers.push('closed');
      break;
    }
    const header = ReplyHeader.read(reply);
    const zxid = header.zxid <= 0 ? header.zxid : `+${header.zxid - start}`;
    const body = WITH_STAT.has(type) ? `${reply.remaining} bytes` : reply.frame.toString('hex', 16);
    answers.push(`xid ${header.xid} zxid ${zxid} err ${header.err} body ${body || 'none'}`);
    if (header.err === ErrorCode.unimplemented) {
      // The real server closes the connection some time after this reply.
      answers.push((await frames.next()).value === undefined ? 'closed' : 'open');
      break;
    }
  }
  if (!socket.destroyed) await send((to) => (to.int(0), to.int(OpCode.closeSession)));
  socket.destroy();
  return answers;
}

async function* framesOf(socket: net.Socket): AsyncGenerator<Reader, undefined, void> {
  const splitter = new FrameSplitter(0x7fff_ffff);
  let wake = () => {};
  socket.on('data', (chunk: Buffer) => {
    splitter.push(chunk);
    wake();
  });
  socket.on('close', () => wake());
  for (;;) {
    let frame = splitter.next();
    while (!frame && !socket.destroyed) {
      await new Promise<void>((resolve) => (wake = resolve));
      frame = splitter.next();
    }
    if (!frame) return undefined;
    yield new Reader(frame);
  }
}

function write(field: Field, to: Writer): void {
  if (field === null) to.int(-1);
  else if (typeof field === 'number') to.int(field);
  else if (typeof field === 'bigint') to.bigint(field);
  else if (typeof field === 'boolean') to.bool(field);
  else if (typeof field === 'string') to.text(field);
  else to.vector(field, (record) => record.forEach((each) => write(each, to)));
}
