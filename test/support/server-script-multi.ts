import { deepStrictEqual } from 'node:assert';
import { type Acl, CreateFlag, OpCode } from '../../lib/protocol/index.js';
import { steps } from './multi-records.js';
import type { RecordedClient } from './recorded-client.js';
import type { Scenario } from './server-script.js';

const { ephemeral, sequential, ephemeralSequential, container, ttl } = CreateFlag;
const NO_NODE = -101;
const NO_AUTH = -102;
const BAD_VERSION = -103;
const NO_CHILDREN_FOR_EPHEMERALS = -108;
const NODE_EXISTS = -110;
const NOT_EMPTY = -111;
const INVALID_ACL = -114;
const BAD_ARGUMENTS = -8;
const MARSHALLING = -5;
/**
 * Results of a failed multi: an operation that was rolled back, and one after the failed operation.
 */
const UNDONE = 0;
const UNTRIED = -2;

/** Reads the whole tree of a script. */
async function recordTree(zk: RecordedClient, path: string): Promise<void> {
  await zk.get(path);
  for (const name of await zk.children2(path)) await recordTree(zk, `${path}/${name}`);
}

/** Scripts for multi and multiRead. */
export const multiScenarios: Record<string, Scenario> = {
  'applies several operations at once': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/m1-m');
    await zk.create('/m1-m/old');
    await zk.multi([
      steps.create('/m1-m/a'),
      steps.create('/m1-m/b', { type: OpCode.create2 }),
      steps.create('/m1-m/a/deep', { data: null }),
      steps.set('/m1-m/a', 'x', 0),
      steps.set('/m1-m/a', 'y', 1),
      steps.check('/m1-m/a', 2),
      steps.create('/m1-m/n-', { flags: sequential }),
      steps.create('/m1-m/n-', { flags: ephemeralSequential }),
      steps.create('/m1-m/e', { flags: ephemeral }),
      steps.delete('/m1-m/old', 0),
      steps.create('/m1-m/old', { data: 'again' }),
      steps.delete('/m1-m/b'),
      steps.create('/m1-m/c', { flags: container }),
      steps.create('/m1-m/c2', { flags: container, type: OpCode.createContainer }),
      steps.create('/m1-m/plain', { type: OpCode.createContainer }),
      steps.createTtl('/m1-m/t', 3_600_000),
      steps.createTtl('/m1-m/t0', 3_600_000, 0),
    ]);
    await recordTree(zk, '/m1-m');
    await zk.multi([]);
    await zk.create('/m1-m/n-', { flags: sequential });
    await zk.create('/m1-m/t/x');
    await zk.ping();
  },

  'rolls back all operations if one fails': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/m2-m');
    await zk.create('/m2-m/kept');
    await zk.create('/m2-m/kept/child');
    await zk.create('/m2-m/e', { flags: ephemeral });
    const before = [
      steps.create('/m2-m/a', { flags: ephemeral }),
      steps.create('/m2-m/n-', { flags: sequential }),
      steps.create('/m2-m/c', { flags: container }),
      steps.create('/m2-m/a2'),
      steps.set('/m2-m', 'changed'),
      steps.delete('/m2-m/kept/child'),
      steps.delete('/m2-m/kept'),
      steps.create('/m2-m/kept', { data: 'other' }),
      steps.delete('/m2-m/e'),
    ];
    const failing: [ReturnType<typeof steps.create>, number][] = [
      [steps.create('/m2-m/a2'), NODE_EXISTS],
      [steps.create('/m2-m/none/x'), NO_NODE],
      [steps.create('/m2-m/a/x'), NO_CHILDREN_FOR_EPHEMERALS],
      [steps.create('/m2-m/a/'), BAD_ARGUMENTS],
      [steps.create('m'), BAD_ARGUMENTS],
      [steps.create('/m2-m/flag', { flags: 7 }), BAD_ARGUMENTS],
      [steps.create('/m2-m/acl', { acl: [] }), INVALID_ACL],
      [steps.createTtl('/m2-m/ttl', 0), BAD_ARGUMENTS],
      [steps.set('/m2-m', 'x', 0), BAD_VERSION],
      [steps.set('/m2-m/e', 'x'), NO_NODE],
      [steps.set('m', 'x'), BAD_ARGUMENTS],
      [steps.check('/m2-m/kept', 7), BAD_VERSION],
      [steps.check('/m2-m/none'), NO_NODE],
      [steps.check('/m2-m/'), BAD_ARGUMENTS],
      [steps.delete('/m2-m'), NOT_EMPTY],
      [steps.delete('/m2-m/none'), NO_NODE],
      [steps.delete('/zookeeper'), BAD_ARGUMENTS],
    ];
    for (const [step, code] of failing) {
      const errors = await zk.multi([
        ...before,
        step,
        steps.create('/m2-m/z'),
        steps.check('/m2-m'),
      ]);
      deepStrictEqual(errors, [...before.map(() => UNDONE), code, UNTRIED, UNTRIED]);
    }
    await recordTree(zk, '/m2-m');
    await zk.create('/m2-m/n-', { flags: sequential });
    await zk.ephemerals('/');
    deepStrictEqual(await zk.multi([steps.check('/m2-m', 9)]), [BAD_VERSION]);
    await zk.close();
    const other = await server.connect('b');
    await recordTree(other, '/m2-m');
  },

  'fires watches for all operations in order, or for none': async (server) => {
    const zk = await server.connect('a');
    const other = await server.connect('b');
    await zk.create('/m3-m');
    await zk.create('/m3-m/a');
    for (const client of [zk, other]) {
      await client.get('/m3-m', true);
      await client.children2('/m3-m', true);
      await client.get('/m3-m/a', true);
      await client.exists('/m3-m/b', true, NO_NODE);
    }
    await zk.multi([steps.set('/m3-m', 'x'), steps.delete('/m3-m/a'), steps.delete('/m3-m/none')]);
    await other.ping();
    await other.events(0);
    await zk.multi([
      steps.create('/m3-m/b'),
      steps.delete('/m3-m/a'),
      steps.set('/m3-m', 'x'),
      steps.set('/m3-m/b', 'y'),
    ]);
    await zk.events(4);
    await other.events(4);
    await zk.multi([steps.create('/m3-m/a'), steps.delete('/m3-m/a'), steps.create('/m3-m/a')]);
    await zk.ping();
  },

  'enforces ACLs in a multi': async (server) => {
    const owner = await server.connect('owner');
    const other = await server.connect('other');
    await owner.auth('ben:secret');
    const own: Acl[] = [{ perms: 31, scheme: 'auth', id: '' }];
    await owner.multi([
      steps.create('/m4-m', { acl: own }),
      steps.create('/m4-m/a'),
      steps.create('/m4-m/a/b', { acl: own }),
    ]);
    for (const step of [
      steps.create('/m4-m/x'),
      steps.delete('/m4-m/a'),
      steps.set('/m4-m', 'x'),
      steps.check('/m4-m'),
      steps.create('/m4-x', { acl: own }),
    ]) {
      await other.multi([steps.create('/m4-free'), step]);
    }
    deepStrictEqual(await other.multi([steps.check('/m4-m')]), [NO_AUTH]);
    await other.multi(
      [steps.get('/m4-m'), steps.children('/m4-m'), steps.get('/m4-m/a')],
      0,
      OpCode.multiRead,
    );
    await owner.multi([steps.get('/m4-m'), steps.children('/m4-m')], 0, OpCode.multiRead);
    await owner.getAcl('/m4-m/a/b');
  },

  'reads several nodes with a result for each, and sets no watch': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/m5-m');
    await zk.create('/m5-m/a');
    const all = [
      steps.get('/m5-m'),
      steps.children('/m5-m'),
      steps.get('/m5-m/none'),
      steps.children('/m5-m/none'),
      steps.get('/m5-m/a'),
    ];
    deepStrictEqual(await zk.multi(all, 0, OpCode.multiRead), [0, 0, NO_NODE, NO_NODE, 0]);
    await zk.multi([], 0, OpCode.multiRead);
    await zk.set('/m5-m', 'x');
    await zk.create('/m5-m/none');
    await zk.events(0);
  },

  'rejects a malformed multi and keeps the connection': async (server) => {
    const zk = await server.connect('a');
    await zk.create('/m6-m');
    const wrong = [
      [steps.unknown(77)],
      [steps.create('/m6-m/a'), steps.unknown(OpCode.setACL)],
      [steps.create('/m6-m/a'), steps.get('/m6-m')],
      [steps.get('/m6-m')],
      [steps.create('/m6-m/a'), steps.create('/m6-m/t', { flags: ttl })],
    ];
    for (const all of wrong) await zk.multi(all, MARSHALLING);
    for (const all of [[steps.create('/m6-m/a')], [steps.get('/m6-m'), steps.create('/m6-m/a')]]) {
      await zk.multi(all, MARSHALLING, OpCode.multiRead);
    }
    await zk.children2('/m6-m');
    await zk.send(OpCode.multi, new Uint8Array(3), MARSHALLING);
    await zk.send(OpCode.create, new Uint8Array(2), MARSHALLING);
    await zk.send(OpCode.getData, new Uint8Array(2), MARSHALLING);
    await zk.children2('/m6-m');
  },
};
