import { spawnSync } from 'node:child_process';
import fs, {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { crc32 } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DataDirectory, DataDirectoryError } from '../../../lib/embedded/data-directory.js';
import { resolveOptions } from '../../../lib/embedded/options.js';
import { type EmbeddedServerKind, PROFILES } from '../../../lib/embedded/profiles.js';
import { ZooKeeperServer } from '../../../lib/embedded/server.js';
import type { Transaction } from '../../../lib/embedded/data-tree.js';
import type { LoggedWrite, SavedStore } from '../../../lib/embedded/store.js';
import { CreateFlag, CreateRequest, OpCode, SetDataRequest } from '../../../lib/protocol/index.js';
import { RawClient } from '../../support/raw-client.js';
import { create, OPEN } from '../../support/raw-requests.js';
import { Recorder } from '../../support/server-recorder.js';
import { randomOperations } from '../../support/server-script-random.js';

const SEEDS = process.env.NIGHTLY ? [1, 2, 3, 4, 5] : [1];

let root: string;
let copies = 0;
let closing: (() => Promise<unknown>)[] = [];
beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'data-'))));
afterEach(async () => {
  for (const close of closing.toReversed()) await close();
  closing = [];
  rmSync(root, { recursive: true });
});

async function open(
  path = join(root, 'data'),
  kind: EmbeddedServerKind = 'zookeeper',
): Promise<DataDirectory> {
  const onFailure = (error: Error) => {
    throw error;
  };
  const data = await DataDirectory.open(path, onFailure, kind);
  closing.push(() => data.close());
  return data;
}

/** Opens and closes the data directory. */
async function reopen(path?: string): Promise<DataDirectory> {
  const data = await open(path);
  await data.close();
  closing.pop();
  return data;
}

async function serve(data: DataDirectory): Promise<ZooKeeperServer> {
  const options = resolveOptions({ tickTime: 100, containerCheckInterval: 0x7fff_ffff });
  const server = new ZooKeeperServer(options, data.saved, data);
  await server.listen();
  closing.push(() => server.close());
  return server;
}

/** Copies the files as a server leaves them that is killed now. */
function copy(): string {
  const path = join(root, `copy-${++copies}`);
  cpSync(join(root, 'data'), path, { recursive: true });
  rmSync(join(path, 'lock'), { force: true });
  return path;
}

/** Returns the state that a server starts with that finds the files of a killed server. */
async function recovered(): Promise<SavedStore> {
  return (await open(copy())).saved;
}

/** Returns the number of bytes that a start has left out at the end of the log. */
function ignoredBytes({ warnings }: DataDirectory): number {
  const found = /^ignored the last (\d+) bytes/.exec(warnings.join('\n'));
  return Number(found?.[1] ?? 0);
}

/** @param before the header of the record before */
function recordOf(content: [Transaction, LoggedWrite], before: Buffer): Buffer {
  const payload = serialize(content);
  const header = Buffer.alloc(12);
  header.writeUInt32BE(payload.length, 0);
  header.writeUInt32BE(crc32(payload), 4);
  header.writeUInt32BE(crc32(header.subarray(0, 8), before.readUInt32BE(8)), 8);
  return Buffer.concat([header, payload]);
}

/** Changes the content of the snapshot in a data directory. */
function changeSnapshot(path: string, change: (snapshot: SavedStore) => object): void {
  const file = join(path, 'snapshot');
  const content = readFileSync(file);
  const format = content.subarray(0, content.indexOf('\n') + 1);
  const snapshot = deserialize(content.subarray(format.length + 4)) as SavedStore;
  const payload = serialize(change(snapshot));
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(payload));
  writeFileSync(file, Buffer.concat([format, checksum, payload]));
}

async function expectRecovery(server: ZooKeeperServer): Promise<void> {
  const { nodes, sessions, lastZxid } = server.store.save();
  const path = copy();
  // The first start reads the log. It leaves a snapshot, which the second start reads.
  for (let start = 1; start <= 2; start++) {
    const { saved } = await reopen(path);
    expect({ nodes: saved.nodes, sessions: saved.sessions }).toEqual({ nodes, sessions });
    expect(saved.lastZxid).toBeGreaterThan(lastZxid);
  }
}

describe('The data directory of a server', () => {
  it.each(SEEDS)('has the state after random operations of seed %i', async (seed) => {
    const server = await serve(await open());
    const recorder = new Recorder(server.port, () => Promise.reject());
    await randomOperations(recorder, seed, 300);
    await expectRecovery(server);
  });

  it('has no ephemerals of closed and expired sessions, and no reaped nodes', async () => {
    const server = await serve(await open());
    const [closed, expired] = await Promise.all(
      [1, 2].map(() => RawClient.connect({ port: server.port, timeout: 1_000 })),
    );
    await create(closed!, '/closed', CreateFlag.ephemeral);
    await create(expired!, '/expired', CreateFlag.ephemeral);
    await create(expired!, '/kept');
    const container = { path: '/container', data: null, acl: OPEN, flags: CreateFlag.container };
    await expired!.request(OpCode.createContainer, CreateRequest, container);
    await create(closed!, '/container/child', CreateFlag.ephemeral);
    expect([...(await recovered()).nodes.keys()]).toContain('/container/child');
    await closed!.closeSession();
    server.skipClock(2_000);
    await expired!.closed;
    await expectRecovery(server);
    const { nodes, sessions } = await recovered();
    expect(sessions).toEqual([]);
    expect([...nodes.keys()].filter((path) => !/^(\/|\/zookeeper.*)?$/.test(path))).toEqual([
      '/kept',
    ]);
  });

  it('writes a snapshot and empties the log when the log is large', async () => {
    const data = await open();
    const server = await serve(data);
    const client = await RawClient.connect({ port: server.port });
    await create(client, '/a');
    // Does not write the first 64 MiB to the disk: the snapshot makes them obsolete.
    const { writeSync } = fs;
    let last = 0;
    vi.spyOn(fs, 'writeSync').mockImplementation(((...args: Parameters<typeof writeSync>) => {
      const [, , , length, position] = args as unknown as number[];
      const isObsolete = position! > last;
      if (!isObsolete) last = Infinity;
      else last = position!;
      return isObsolete ? length! : writeSync(...args);
    }) as typeof writeSync);
    syncBuiltinESMExports();
    try {
      const bytes = Buffer.alloc(1_000_000);
      for (let version = 0; version < 70; version++) {
        // The last one is small, because the assertions compare each byte.
        const data = version < 69 ? bytes : Buffer.from('last');
        const request = { path: '/a', data, version };
        await client.request(OpCode.setData, SetDataRequest, request);
      }
    } finally {
      vi.restoreAllMocks();
      syncBuiltinESMExports();
    }
    const { size } = statSync(join(root, 'data/log'));
    expect(size).toBeGreaterThan(100);
    expect(size).toBeLessThan(64 << 20);
    expect(server.store.tree.nodes.get('/a')).toMatchObject({ version: 70 });
    await expectRecovery(server);
  });

  it('can be read when the server was killed between the snapshot and the emptying of the log', async () => {
    const data = await open();
    const server = await serve(data);
    const client = await RawClient.connect({ port: server.port });
    await create(client, '/a-', CreateFlag.sequential);
    const before = copy();
    const after = copy();
    await reopen(after);
    cpSync(join(before, 'log'), join(after, 'log'));
    expect(statSync(join(after, 'log')).size).toBeGreaterThan(0);
    expect((await open(after)).saved.nodes).toEqual(server.store.tree.nodes);
  });

  it('applies no write again that the snapshot of a running server has', async () => {
    const server = await serve(await open());
    const client = await RawClient.connect({ port: server.port });
    await create(client, '/a-', CreateFlag.sequential);
    const path = copy();
    changeSnapshot(path, (snapshot) => ({ ...snapshot, ...server.store.save() }));
    expect((await open(path)).saved.nodes).toEqual(server.store.tree.nodes);
  });

  describe('with a log of three records', () => {
    let path: string;
    let sizes: number[];
    beforeEach(async () => {
      const server = await serve(await open());
      const client = await RawClient.connect({ port: server.port });
      const size = () => statSync(join(root, 'data/log')).size;
      sizes = [size()];
      for (const name of ['/a', '/b']) {
        await create(client, name);
        sizes.push(size());
      }
      path = copy();
    });

    /** Expects that a start with this log has the first node only, and keeps the rest of the log in another file. */
    async function expectIgnored(log: Buffer): Promise<void> {
      const torn = join(root, 'torn');
      cpSync(path, torn, { recursive: true });
      writeFileSync(join(torn, 'log'), log);
      const data = await reopen(torn);
      expect([...data.saved.nodes.keys()]).toContain('/a');
      expect([...data.saved.nodes.keys()]).not.toContain('/b');
      const ignored = log.subarray(sizes[1]);
      expect(ignoredBytes(data)).toBe(ignored.length);
      const damaged = readdirSync(torn).filter((name) => name.startsWith('log.damaged-'));
      expect(damaged.map((name) => readFileSync(join(torn, name)))).toEqual([ignored]);
      rmSync(torn, { recursive: true });
    }

    it('ignores a record at the end whose write was interrupted, wherever it was', async () => {
      const [, start, end] = sizes;
      const log = readFileSync(join(path, 'log'));
      expect(log.length).toBe(end);
      // Within the length, after the header, and within the content.
      for (const length of [start! + 3, start! + 8, start! + 50, end! - 1]) {
        await expectIgnored(log.subarray(0, length));
      }
      // A crash of the machine may leave zeros.
      const withZeros = Buffer.concat([log, Buffer.alloc(5_000)]);
      for (const at of [end! - 1, end! - 50, start! + 20, start! + 6, start! + 2, start!]) {
        await expectIgnored(withZeros.fill(0, at));
      }
      // A wrong checksum.
      log[log.length - 1]! ^= 1;
      await expectIgnored(log);
    });

    it('ignores zeros after the last record', async () => {
      appendFileSync(join(path, 'log'), Buffer.alloc(5_000));
      const zeros = await open(path);
      expect(ignoredBytes(zeros)).toBe(5_000);
      expect([...zeros.saved.nodes.keys()]).toContain('/b');
    });

    it('warns about a write that cannot be applied, and applies the others', async () => {
      const log = readFileSync(join(path, 'log'));
      const [, start, end] = sizes;
      const last = deserialize(log.subarray(start! + 12)) as [Transaction, LoggedWrite];
      const zxid = last[0].zxid + 1;
      const wrong = recordOf([{ zxid, time: 0 }, { reaped: '/missing' }], log.subarray(start));
      const right = recordOf([{ zxid: zxid + 1, time: 0 }, { reaped: '/b' }], wrong);
      writeFileSync(join(path, 'log'), Buffer.concat([log, wrong, right]));
      const { saved, warnings } = await open(path);
      expect(warnings).toEqual([expect.stringContaining(`write 0x${zxid.toString(16)} again: `)]);
      expect([...saved.nodes.keys()]).toContain('/a');
      expect([...saved.nodes.keys()]).not.toContain('/b');
      expect(log.length).toBe(end);
    });

    it('rejects a record that is corrupt before others', async () => {
      const [opened, oneCreate] = sizes;
      const log = readFileSync(join(path, 'log'));
      // The bytes of the length, the checksums, and some of the record.
      for (const offset of [0, 1, 2, 3, 4, 8, 20, oneCreate! - opened! - 1]) {
        const wrong = Buffer.from(log);
        wrong[opened! + offset]! ^= 0x10;
        await expectCorrupt(wrong);
      }
    });

    it('rejects a log from whose middle a record was removed', async () => {
      const [opened, oneCreate] = sizes;
      const log = readFileSync(join(path, 'log'));
      await expectCorrupt(Buffer.concat([log.subarray(0, opened), log.subarray(oneCreate)]));
    });

    async function expectCorrupt(log: Buffer): Promise<void> {
      writeFileSync(join(path, 'log'), log);
      await expect(open(path)).rejects.toThrow(
        `cannot use the data directory ${path}: ${path}/log is corrupt at byte ${sizes[0]}`,
      );
    }

    it('rejects a corrupt snapshot, and a log without a snapshot', async () => {
      const file = join(path, 'snapshot');
      const snapshot = readFileSync(file);
      for (const at of [0, 20, 25, 40, snapshot.length - 1]) {
        const wrong = Buffer.from(snapshot);
        wrong[at]! ^= 1;
        writeFileSync(file, wrong);
        await expect(open(path)).rejects.toThrow(`${file} is corrupt`);
      }
      rmSync(file);
      await expect(open(path)).rejects.toThrow(`${file} is missing`);
      expect(readFileSync(join(path, 'log')).length).toBe(sizes[2]);
    });
  });

  describe('of one kind of server', () => {
    const path = () => join(root, 'data');
    const refusal = (written: string, kind: string) =>
      `cannot use the data directory ${path()}: a server with --server ${written} has written it, and this one has --server ${kind}: use --server ${written}, or another directory with --data`;

    it('is refused to another kind, and can be used by the same kind', async () => {
      const kinds = Object.keys(PROFILES) as EmbeddedServerKind[];
      for (const written of kinds) {
        await (await DataDirectory.open(path(), fail, written)).close();
        for (const kind of kinds.filter((other) => other !== written)) {
          await expect(DataDirectory.open(path(), fail, kind)).rejects.toThrow(
            new DataDirectoryError(refusal(written, kind)),
          );
        }
        await (await DataDirectory.open(path(), fail, written)).close();
        rmSync(path(), { recursive: true });
      }
    });

    function fail(error: Error): never {
      throw error;
    }
  });

  it('can be used if the first server was killed before its first snapshot', async () => {
    const path = join(root, 'data');
    mkdirSync(path);
    writeFileSync(join(path, 'log'), '');
    expect((await open()).saved.sessions).toEqual([]);
  });

  it('never repeats a zxid, even if the clock goes back', async () => {
    const first = await reopen();
    vi.setSystemTime(Date.now() - 3_600_000);
    try {
      const second = await open();
      expect(second.saved.lastZxid).toBeGreaterThan(first.saved.lastZxid);
    } finally {
      vi.useRealTimers();
    }
  });

  it('writes to no file elsewhere to which somebody has planted a link', async () => {
    const path = join(root, 'data');
    const other = join(root, 'other');
    writeFileSync(other, 'untouched');
    mkdirSync(path);
    symlinkSync(other, join(path, 'snapshot.new'));
    await reopen();
    rmSync(join(path, 'log'));
    symlinkSync(other, join(path, 'log'));
    await expect(open()).rejects.toThrow(`cannot use the data directory ${path}: ELOOP`);
    expect(readFileSync(other, 'utf8')).toBe('untouched');
  });

  it('is created with its parents, and refused below a directory that takes no others', async () => {
    await reopen(join(root, 'a/b/c'));
    await expect(open('/proc/none/data')).rejects.toThrow(
      "cannot use the data directory /proc/none/data: ENOENT: no such file or directory, mkdir '/proc/none'",
    );
  });

  it('leaves no other files, and no lock, when it is closed', async () => {
    await reopen();
    expect(readdirSync(join(root, 'data')).sort()).toEqual(['log', 'snapshot']);
  });

  describe('that another server uses', () => {
    const lock = () => join(root, 'data/lock');

    it('is refused', async () => {
      await open();
      await expect(open()).rejects.toThrow(
        `cannot use the data directory ${root}/data: the server with process id ${process.pid} uses it`,
      );
    });

    it('is used if that process or the boot of its machine has ended, or its id belongs to another one', async () => {
      const own = await ownLock();
      const { pid } = spawnSync('true');
      for (const stale of [{ pid }, { start: '1' }, { boot: 'x' }]) {
        writeFileSync(lock(), JSON.stringify({ ...own, ...stale }));
        await reopen();
      }
      writeFileSync(lock(), '');
      await expect(open()).rejects.toThrow(`${lock()} does not name a process: remove ${lock()}`);
    });

    it('is refused if that process is not visible, or its start time is unknown', async () => {
      const own = await ownLock();
      const { pid } = spawnSync('true');
      const elsewhere = 'it was locked in another container or on another machine';
      const remove = `remove ${lock()} if no server uses the directory`;
      for (const [other, reason] of [
        [{ pid, host: 'other' }, elsewhere],
        [{ pid, namespace: 'pid:[1]' }, elsewhere],
        [{ start: undefined }, `the process with id ${process.pid} uses it`],
      ] as const) {
        writeFileSync(lock(), JSON.stringify({ ...own, ...other }));
        await expect(open()).rejects.toThrow(`${reason}: ${remove}`);
      }
    });

    it('is refused while another server removes the stale lock', async () => {
      const own = await ownLock();
      const { pid } = spawnSync('true');
      writeFileSync(lock(), JSON.stringify({ ...own, pid }));
      writeFileSync(`${lock()}.break`, '');
      await expect(open()).rejects.toThrow(`remove ${lock()}.break if no server starts`);
      rmSync(`${lock()}.break`);
      await open();
      expect(readdirSync(join(root, 'data')).sort()).toEqual(['lock', 'log', 'snapshot']);
    });

    it('fails at the next flush, and keeps the lock of the other server', async () => {
      let onFailure!: (error: Error) => void;
      const failure = new Promise<Error>((resolve) => (onFailure = resolve));
      const data = await DataDirectory.open(
        join(root, 'data'),
        onFailure as () => never,
        'zookeeper',
      );
      closing.push(() => data.close());
      writeFileSync(lock(), '{}');
      const server = await serve(data);
      await RawClient.connect({ port: server.port });
      expect((await failure).message).toBe(
        `cannot write to the data directory ${root}/data: ${lock()} was removed or belongs to another server`,
      );
      await server.close();
      await data.close();
      closing = [];
      expect(readFileSync(lock(), 'utf8')).toBe('{}');
    });

    /** Returns what a server of this process writes to its lock, and leaves the directory without a lock. */
    async function ownLock(): Promise<object> {
      const data = await open();
      const own = JSON.parse(readFileSync(lock(), 'utf8')) as object;
      await data.close();
      closing.pop();
      return own;
    }
  });
});
