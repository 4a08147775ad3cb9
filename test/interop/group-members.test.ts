import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { GroupMember, type ZkClient } from 'nestjs-zookeeper/coordination/recipes';
import { useClients } from '../support/clients.js';
import { useServer } from '../support/servers.js';
import { Curator } from './curator.js';
import { KAZOO_SCENARIOS, PYTHON } from './programs.js';

const missing = Curator.missing();
if (missing) console.log(`Left out: the interop tests with Apache Curator (${missing}).`);

/** kazoo's Party at a path, in a process of its own. */
async function kazooParty(connectString: string, path: string) {
  const args = [KAZOO_SCENARIOS, connectString, 'party_beside_others', path];
  const child = spawn(PYTHON!, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface(child.stdout);
  const next = async () => ((await once(lines, 'line')) as [string])[0];
  expect(await next()).toBe('ready');
  return {
    members: async () => {
      child.stdin.write('\n');
      return (await next()).split(' ');
    },
    leave: async () => {
      child.stdin.end();
      await once(child, 'exit');
    },
  };
}

describe.skipIf(missing)('GroupMember beside Apache Curator', () => {
  const server = useServer();
  const connect = useClients(server);
  let curator: Curator;
  let client: ZkClient;
  let path: string;

  beforeAll(async () => {
    curator = await Curator.start(server.connectString);
  });
  beforeEach(async () => {
    client = await connect();
    path = server.path('members');
  });
  afterAll(async () => {
    await curator?.[Symbol.asyncDispose]();
  });

  const seenBy = ({ members }: GroupMember) =>
    [...members].map(([id, data]) => `${id}=${data.toString()}`);

  it('sees the same members with the same data, on both sides', async () => {
    const ours = new GroupMember(client, path, { id: 'node', data: 'n1' });
    ours.start();
    await curator.joinGroup('java', path, 'j1');
    await expect.poll(() => seenBy(ours)).toEqual(['java=j1', 'node=n1']);
    await expect.poll(() => curator.membersSeenBy('java')).toEqual(['java=j1', 'node=n1']);
    ours.setData('n2');
    await curator.setMemberData('java', 'j2');
    await expect.poll(() => seenBy(ours)).toEqual(['java=j2', 'node=n2']);
    await expect.poll(() => curator.membersSeenBy('java')).toEqual(['java=j2', 'node=n2']);
    await ours.close();
    await expect.poll(() => curator.membersSeenBy('java')).toEqual(['java=j2']);
    const again = new GroupMember(client, path, { id: 'node' });
    again.start();
    await curator.leaveGroup('java');
    await expect.poll(() => seenBy(again)).toEqual(['node=']);
    await again.close();
  });

  it.skipIf(!PYTHON)('shares a path with Curator and with a Party of kazoo', async () => {
    // A Party lists only the znodes whose names contain this word.
    const ids = { node: 'node__party__', java: 'java__party__' };
    const ours = new GroupMember(client, path, { id: ids.node, data: 'node-data' });
    ours.start();
    await curator.joinGroup(ids.java, path, 'java-data');
    const party = await kazooParty(server.connectString, path);
    const all = ['java-data', 'node-data', 'python'];
    const data = (members: Iterable<string>) => [...members].sort();
    await expect.poll(() => data([...ours.members.values()].map(String))).toEqual(all);
    const ofCurator = async () =>
      data((await curator.membersSeenBy(ids.java)).map((each) => each.split('=')[1]!));
    await expect.poll(ofCurator).toEqual(all);
    await expect.poll(() => party.members()).toEqual(all);
    // The id of a Party begins with a random number.
    const others = [...ours.members.keys()].filter((id) => id !== ids.java && id !== ids.node);
    expect(others).toEqual([expect.stringMatching(/^[0-9a-f]{32}__party__$/)]);
    await party.leave();
    await expect
      .poll(() => seenBy(ours))
      .toEqual([`${ids.java}=java-data`, `${ids.node}=node-data`]);
    await curator.leaveGroup(ids.java);
    await ours.close();
  });
});
