import { firstValueFrom, lastValueFrom, tap } from 'rxjs';
import { describe, expect } from 'vitest';
import { BadOptionError, ShuttingDownError } from 'nestjs-zookeeper';
import { CoordinationModule, CoordinationService } from 'nestjs-zookeeper/coordination';
import { useClients } from '../../support/clients.js';
import { useApps } from '../../support/nest-apps.js';
import { nodesUnder } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { it } from '../../support/virtual-time.js';

const server = useServer();
const apps = useApps(server);
const connect = useClients(server);
const imports = [CoordinationModule.forRoot()];

async function startServices(count: number) {
  const started = await Promise.all(Array.from({ length: count }, () => apps.start({ imports })));
  return started.map((app) => ({ app, service: app.get(CoordinationService) }));
}

describe('CoordinationService.members', () => {
  it('joins a group, and leaves it at the shutdown', async () => {
    const [one, two] = await startServices(2);
    const member = one!.service.members('shops', { id: 'a', data: 'http://a' });
    const other = two!.service.members('shops', { id: 'b' });
    expect(one!.service.members('shops')).toBe(member);
    expect(() => one!.service.members('shops', { id: 'c' })).toThrow(BadOptionError);
    await expect.poll(() => other.members.get('a')?.toString()).toBe('http://a');
    await two!.app.close();
    await expect.poll(() => member.health()).toEqual({ id: 'a', joined: true, members: ['a'] });
    await one!.app.close();
    expect(member.state).toBe('closed');
  });

  it('returns the last member without options, also a closed one, and joins again with options', async () => {
    const [one] = await startServices(1);
    const { service, app } = one!;
    const first = service.members('again', { id: 'a' });
    await first.close();
    expect(service.members('again')).toBe(first);
    const second = service.members('again', { id: 'a' });
    await expect.poll(() => second.joined).toBe(true);
    await app.close();
    expect(service.members('again')).toBe(second);
    expect(service.members('again').health()).toMatchObject({ id: 'a', joined: false });
    expect(() => service.members('again', { id: 'a' })).toThrow(ShuttingDownError);
    expect(() => service.members('never')).toThrow(ShuttingDownError);
  });
});

describe('CoordinationService.memberChanges', () => {
  it('emits the members of a group without joining it, and completes at the shutdown', async () => {
    const [one, observer] = await startServices(2);
    const member = one!.service.members('shops', { id: 'b', data: 'http://b' });
    const probe = await connect();
    const changes = observer!.service.memberChanges('shops');
    const all: string[][] = [];
    const completed = lastValueFrom(changes.pipe(tap((members) => all.push([...members.keys()]))));
    const seen: Record<string, string>[] = [];
    const subscription = changes.subscribe((members) => {
      seen.push(Object.fromEntries([...members].map(([id, data]) => [id, data.toString()])));
    });
    await expect.poll(() => seen.at(-1)).toEqual({ b: 'http://b' });
    await probe.create(`${member.path}/a`, Buffer.from('http://a'), { mode: 'ephemeral' });
    await expect
      .poll(() => Object.entries(seen.at(-1)!))
      .toEqual([
        ['a', 'http://a'],
        ['b', 'http://b'],
      ]);
    await expect.poll(() => all.at(-1)).toEqual(['a', 'b']);
    subscription.unsubscribe();
    const { length } = seen;
    await probe.delete(`${member.path}/a`);
    await expect.poll(() => all.at(-1)).toEqual(['b']);
    expect(await nodesUnder(probe, member.path)).toEqual(['b']);
    await observer!.app.close();
    await completed;
    expect(seen).toHaveLength(length);
  });

  it('emits first when all members are known, also that there are none', async () => {
    const [one, observer] = await startServices(2);
    const first = () => firstValueFrom(observer!.service.memberChanges('shops'));
    expect(await first()).toEqual(new Map());
    const { client } = one!.service;
    const path = `${client.namespace}/members/shops`;
    await client.ensureContainers(path);
    await Promise.all(['a', 'b', 'c'].map((id) => client.create(`${path}/${id}`)));
    expect([...(await first()).keys()]).toEqual(['a', 'b', 'c']);
  });

  it('completes without a value after the shutdown', async () => {
    const [one] = await startServices(1);
    const changes = one!.service.memberChanges('late');
    await one!.app.close();
    expect(await lastValueFrom(changes, { defaultValue: 'none' })).toBe('none');
  });
});
