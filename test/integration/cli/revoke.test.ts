import { describe, expect, it } from 'vitest';
import { Mutex, ReadWriteLock } from 'nestjs-zookeeper/recipes';
import { useCli } from '../../support/cli.js';
import { aborted, useClients } from '../../support/clients.js';
import { untilNodes } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';

// The command reads the whole tree.
const server = useServer({ own: true });
const connect = useClients(server);
const cli = useCli(server);
const run = (...args: string[]) => cli(args).ended;

describe('revoke', () => {
  it('requests revocation from the holder of a key, which keeps the lock', async () => {
    const namespace = server.path('revoked');
    const client = await connect();
    const lease = await new Mutex(client, `${namespace}/locks/a%2Fb`).acquire();
    const { revocation } = lease;
    const { code, out } = await run('revoke', 'a/b');
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`^asked ${namespace}/locks/a%2Fb/.*-lock-0000000000\n$`));
    await aborted(revocation);
    expect(lease.held).toBe(true);
    const shown = await run('locks', '--namespace', namespace);
    expect(shown.out).toContain('holds, revoke requested');
  });

  it('refuses a key that several namespaces have, and asks the holder in one of them', async () => {
    const [one, two] = [server.path('one'), server.path('two')];
    const client = await connect();
    const leases = await Promise.all(
      [one, two].map((each) => new Mutex(client, `${each}/locks/gold`).acquire()),
    );
    const revocations = leases.map(({ revocation }) => revocation);
    const { code, out, err } = await run('revoke', 'gold');
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain(
      `2 locks have the key "gold": ${one}/locks/gold, ${two}/locks/gold. Name one with --namespace`,
    );
    expect((await run('revoke', 'gold', '--namespace', two)).code).toBe(0);
    await aborted(revocations[1]!);
    expect(revocations[0]!.aborted).toBe(false);
  });

  it('refuses a key if another namespace may have it too', async () => {
    const namespace = server.path('known');
    const auth = [{ scheme: 'digest' as const, user: 'ops', password: 'secret' }];
    const acl = [{ scheme: 'auth' as const, id: '', permissions: 'cdrwa' }];
    const [client, open] = await Promise.all([connect({ auth, acl }), connect()]);
    const hidden = server.path('hidden');
    await client.ensureContainers(`${hidden}/locks`);
    await new Mutex(open, `${namespace}/locks/gold`).acquire();
    const { code, out, err } = await run('revoke', 'gold');
    expect([code, out]).toEqual([1, '']);
    expect(err).toContain(`an ACL denies read access to ${hidden}`);
    expect((await run('revoke', 'gold', '--namespace', namespace)).code).toBe(0);
    await client.delete(`${hidden}/locks`);
    await client.delete(hidden);
  });

  it('requests revocation from one participant only', async () => {
    const path = server.path('participant');
    const [client, other] = await Promise.all([connect(), connect()]);
    const [one, two] = await Promise.all(
      [client, other].map((each) => new ReadWriteLock(each, path).read.acquire()),
    );
    const both = [one!.revocation, two!.revocation];
    const [first] = await new ReadWriteLock(client, path).read.participants();
    const { code, out } = await run('revoke', path, '--participant', first!.path);
    expect([code, out]).toEqual([0, `asked ${first!.path}\n`]);
    await Promise.any(both.map(aborted));
    expect(both.filter((signal) => signal.aborted)).toHaveLength(1);
    const absent = await run('revoke', path, '--participant', `${path}/absent`);
    expect([absent.code, absent.err]).toEqual([
      1,
      `nestjs-zookeeper: --participant: ${path}/absent does not hold or wait for ${path}\n`,
    ]);
  });

  it('asks the holder of a lock that lingers', async () => {
    const path = server.path('lingers');
    const client = await connect();
    await new Mutex(client, path).withLock(() => {}, { linger: 60_000 });
    expect((await run('revoke', path, '--json')).out).toMatch(/^\[".*-lock-\d+"\]\n$/);
    await untilNodes(client, path, 0);
  });

  it('fails if no participant holds the lock', async () => {
    const path = server.path('nobody');
    const client = await connect();
    expect(await run('revoke', 'nobody')).toEqual({
      code: 1,
      out: '',
      err: 'nestjs-zookeeper: nobody holds "nobody" under /\n',
    });
    const missing = await run('revoke', path);
    expect(missing).toMatchObject({ code: 1, err: expect.stringContaining('does not exist') });
    await client.create(path);
    const free = await run('revoke', path);
    expect(free).toMatchObject({ code: 1, err: expect.stringContaining(`nobody holds ${path}`) });
  });
});
