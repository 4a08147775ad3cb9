import { once } from 'node:events';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import { useServer } from '../support/servers.js';

type Callback = (error: Error | null, ...results: unknown[]) => void;
interface Transaction {
  create(path: string, data?: Buffer): Transaction;
  setData(path: string, data: Buffer, version?: number): Transaction;
  check(path: string, version: number): Transaction;
  remove(path: string): Transaction;
  commit(callback: Callback): void;
}
type Name =
  'create' | 'exists' | 'getACL' | 'getChildren' | 'getData' | 'mkdirp' | 'remove' | 'setData';
type Client = NodeJS.EventEmitter &
  Record<Name, (...args: unknown[]) => void> & {
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

/** Calls a method; resolves with its first result. */
const ask = (client: Client, method: Name, ...args: unknown[]): Promise<unknown> =>
  promisify<unknown>((done) => client[method](...args, done))();
const commit = (transaction: Transaction): Promise<unknown> =>
  promisify<unknown>((done) => transaction.commit(done))();

const ownedBy = (client: Client) => ({ ephemeralOwner: client.getSessionId() });
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
    await ask(client, 'mkdirp', `${root}/a/b`);
    expect(await ask(client, 'create', `${root}/s-`, null, PERSISTENT_SEQUENTIAL)).toBe(
      `${root}/s-0000000001`,
    );
    await ask(client, 'create', `${root}/e-`, null, EPHEMERAL_SEQUENTIAL);
    await ask(client, 'create', `${root}/e`, Buffer.from('x'), EPHEMERAL);
    expect(await ask(client, 'getData', `${root}/e`)).toEqual(Buffer.from('x'));
    expect(await ask(client, 'exists', `${root}/e`)).toMatchObject(ownedBy(client));
    expect(((await ask(client, 'getChildren', root)) as string[]).sort()).toEqual([
      'a',
      'e',
      'e-0000000002',
      's-0000000001',
    ]);
    await ask(client, 'remove', `${root}/e`);
    expect(await ask(client, 'exists', `${root}/e`)).toBeNull();
  });

  test('errors with their names', async () => {
    const [client, path] = [await connect(), server.path('errors')];
    await ask(client, 'mkdirp', `${path}/child`);
    const calls: [Name, unknown[], string][] = [
      ['create', [path], 'NODE_EXISTS'],
      ['create', [`${path}/none/x`], 'NO_NODE'],
      ['setData', [path, Buffer.from('x'), 7], 'BAD_VERSION'],
      ['remove', [path], 'NOT_EMPTY'],
      ['create', ['/a\u0001'], 'BAD_ARGUMENTS'],
    ];
    for (const [method, args, name] of calls) {
      await expect(ask(client, method, ...args)).rejects.toEqual(named(name));
    }
  });

  test('one-shot watches', async () => {
    const [client, other, path] = [await connect(), await connect(), server.path('watched')];
    const events: unknown[] = [];
    const heard = (event: { name: string; path: string }) => events.push([event.name, event.path]);
    await ask(client, 'exists', path, heard);
    await ask(other, 'create', path);
    await ask(client, 'getChildren', path, heard);
    await ask(client, 'getData', path, heard);
    await ask(other, 'create', `${path}/a`);
    await ask(other, 'create', `${path}/b`);
    await ask(other, 'setData', path, Buffer.from('x'));
    await ask(other, 'setData', path, Buffer.from('y'));
    await ask(client, 'exists', path);
    expect(events).toEqual([
      ['NODE_CREATED', path],
      ['NODE_CHILDREN_CHANGED', path],
      ['NODE_DATA_CHANGED', path],
    ]);
  });

  test('transactions, applied completely or not at all', async () => {
    const [client, path] = [await connect(), server.path('together')];
    const whole = client
      .transaction()
      .create(path)
      .create(`${path}/a`, Buffer.from('x'))
      .setData(`${path}/a`, Buffer.from('y'), 0)
      .check(`${path}/a`, 1)
      .create(`${path}/b`)
      .remove(`${path}/b`);
    expect(await commit(whole)).toHaveLength(6);
    const failing = client.transaction().create(`${path}/c`).check(path, 9).remove(`${path}/a`);
    await expect(commit(failing)).rejects.toEqual(named('BAD_VERSION'));
    expect(await ask(client, 'getChildren', path)).toEqual(['a']);
  });

  test('rights', async () => {
    const [client, other, path] = [await connect(), await connect(), server.path('secret')];
    client.addAuthInfo('digest', Buffer.from('ben:secret'));
    await ask(client, 'create', path, Buffer.from('x'), library.ACL.CREATOR_ALL_ACL);
    await expect(ask(other, 'getData', path)).rejects.toEqual(named('NO_AUTH'));
    other.addAuthInfo('digest', Buffer.from('ben:secret'));
    expect(await ask(other, 'getData', path)).toEqual(Buffer.from('x'));
    expect(await ask(other, 'getACL', path)).toMatchObject([
      { permission: 31, id: { scheme: 'digest' } },
    ]);
  });

  test('the same session after a restart', async () => {
    const [client, path] = [await connect(), server.path('kept')];
    await ask(client, 'create', path, null, library.CreateMode.EPHEMERAL);
    const id = client.getSessionId();
    const back = once(client, 'connected');
    await server.restart();
    await back;
    expect(client.getSessionId()).toEqual(id);
    expect(await ask(client, 'exists', path)).toMatchObject(ownedBy(client));
  });
});
