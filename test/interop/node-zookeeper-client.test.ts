import { once } from 'node:events';
import { createRequire } from 'node:module';
import { afterEach, describe, expect, test } from 'vitest';
import { useServer } from '../support/servers.js';

type Callback = (error: Error | null, ...results: unknown[]) => void;
type Method = (...args: unknown[]) => void;
interface Transaction {
  create(path: string, data?: Buffer): Transaction;
  setData(path: string, data: Buffer, version?: number): Transaction;
  check(path: string, version: number): Transaction;
  remove(path: string): Transaction;
  commit(callback: Callback): void;
}
type Client = NodeJS.EventEmitter &
  Record<
    'create' | 'exists' | 'getACL' | 'getChildren' | 'getData' | 'mkdirp' | 'remove' | 'setData',
    Method
  > & {
    addAuthInfo(scheme: string, auth: Buffer): void;
    close(): void;
    connect(): void;
    getSessionId(): Buffer;
    transaction(): Transaction;
  };
interface Library {
  createClient(connectString: string, options?: { sessionTimeout?: number }): Client;
  ACL: { CREATOR_ALL_ACL: unknown };
  CreateMode: Record<'EPHEMERAL' | 'PERSISTENT_SEQUENTIAL' | 'EPHEMERAL_SEQUENTIAL', number>;
}

// The package has no types.
const library = createRequire(import.meta.url)('node-zookeeper-client') as Library;

/** Calls a method; resolves with its results, or with the name of its error. */
const ask = (call: (callback: Callback) => void): Promise<unknown[]> =>
  new Promise((resolve, reject) => {
    call((error, ...results) => (error ? reject(error) : resolve(results)));
  });

const named = (name: string) => expect.objectContaining({ name });

describe('The JavaScript client node-zookeeper-client uses a ZooKeeper server that provides', () => {
  const server = useServer({ own: true });
  const clients: Client[] = [];

  const connect = async () => {
    const client = library.createClient(server.connectString, { sessionTimeout: 10_000 });
    clients.push(client);
    const connected = once(client, 'connected');
    client.connect();
    await connected;
    return client;
  };
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
  });

  test('nodes of each kind', async () => {
    const [client, root] = [await connect(), server.path('nodes')];
    const { EPHEMERAL, EPHEMERAL_SEQUENTIAL, PERSISTENT_SEQUENTIAL } = library.CreateMode;
    await ask((done) => client.mkdirp(`${root}/a/b`, done));
    expect(
      await ask((done) => client.create(`${root}/s-`, null, PERSISTENT_SEQUENTIAL, done)),
    ).toEqual([`${root}/s-0000000001`]);
    await ask((done) => client.create(`${root}/e-`, null, EPHEMERAL_SEQUENTIAL, done));
    await ask((done) => client.create(`${root}/e`, Buffer.from('x'), EPHEMERAL, done));
    const [data, stat] = await ask((done) => client.getData(`${root}/e`, done));
    expect(data).toEqual(Buffer.from('x'));
    expect((stat as { ephemeralOwner: Buffer }).ephemeralOwner).toEqual(client.getSessionId());
    const [children] = await ask((done) => client.getChildren(root, done));
    expect((children as string[]).sort()).toEqual(['a', 'e', 'e-0000000002', 's-0000000001']);
    await ask((done) => client.remove(`${root}/e`, done));
    expect(await ask((done) => client.exists(`${root}/e`, done))).toEqual([null]);
  });

  test('errors with their names', async () => {
    const [client, path] = [await connect(), server.path('errors')];
    await ask((done) => client.mkdirp(`${path}/child`, done));
    for (const [call, name] of [
      [(done: Callback) => client.create(path, done), 'NODE_EXISTS'],
      [(done: Callback) => client.create(`${path}/none/x`, done), 'NO_NODE'],
      [(done: Callback) => client.setData(path, Buffer.from('x'), 7, done), 'BAD_VERSION'],
      [(done: Callback) => client.remove(path, done), 'NOT_EMPTY'],
      [(done: Callback) => client.create('/a\u0001', done), 'BAD_ARGUMENTS'],
    ] as const) {
      await expect(ask(call)).rejects.toEqual(named(name));
    }
  });

  test('one-shot watches', async () => {
    const [client, other, path] = [await connect(), await connect(), server.path('watched')];
    const events: unknown[] = [];
    const heard = (event: { name: string; path: string }) => events.push([event.name, event.path]);
    await ask((done) => client.exists(path, heard, done));
    await ask((done) => other.create(path, done));
    await ask((done) => client.getChildren(path, heard, done));
    await ask((done) => client.getData(path, heard, done));
    await ask((done) => other.create(`${path}/a`, done));
    await ask((done) => other.create(`${path}/b`, done));
    await ask((done) => other.setData(path, Buffer.from('x'), done));
    await ask((done) => other.setData(path, Buffer.from('y'), done));
    await ask((done) => client.exists(path, done));
    expect(events).toEqual([
      ['NODE_CREATED', path],
      ['NODE_CHILDREN_CHANGED', path],
      ['NODE_DATA_CHANGED', path],
    ]);
  });

  test('transactions, applied completely or not at all', async () => {
    const [client, path] = [await connect(), server.path('together')];
    const [results] = await ask((done) =>
      client
        .transaction()
        .create(path)
        .create(`${path}/a`, Buffer.from('x'))
        .setData(`${path}/a`, Buffer.from('y'), 0)
        .check(`${path}/a`, 1)
        .create(`${path}/b`)
        .remove(`${path}/b`)
        .commit(done),
    );
    expect(results).toHaveLength(6);
    const failing = ask((done) =>
      client.transaction().create(`${path}/c`).check(path, 9).remove(`${path}/a`).commit(done),
    );
    await expect(failing).rejects.toEqual(named('BAD_VERSION'));
    const [children] = await ask((done) => client.getChildren(path, done));
    expect(children).toEqual(['a']);
  });

  test('rights', async () => {
    const [client, other, path] = [await connect(), await connect(), server.path('secret')];
    client.addAuthInfo('digest', Buffer.from('ben:secret'));
    await ask((done) => client.create(path, Buffer.from('x'), library.ACL.CREATOR_ALL_ACL, done));
    await expect(ask((done) => other.getData(path, done))).rejects.toEqual(named('NO_AUTH'));
    other.addAuthInfo('digest', Buffer.from('ben:secret'));
    expect((await ask((done) => other.getData(path, done)))[0]).toEqual(Buffer.from('x'));
    const [acls] = await ask((done) => other.getACL(path, done));
    expect(acls).toMatchObject([{ permission: 31, id: { scheme: 'digest' } }]);
  });

  test('the same session after a restart', async () => {
    const [client, path] = [await connect(), server.path('kept')];
    await ask((done) => client.create(path, null, library.CreateMode.EPHEMERAL, done));
    const id = client.getSessionId();
    const back = once(client, 'connected');
    await server.restart();
    await back;
    expect(client.getSessionId()).toEqual(id);
    const [stat] = await ask((done) => client.exists(path, done));
    expect((stat as { ephemeralOwner: Buffer }).ephemeralOwner).toEqual(id);
  });
});
