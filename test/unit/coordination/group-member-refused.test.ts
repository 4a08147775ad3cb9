import { GroupMember } from 'nestjs-zookeeper/coordination/recipes';
import { NotAuthorizedError } from 'nestjs-zookeeper/recipes';
import { simulate } from 'nestjs-zookeeper/testing';
import { expect, it, vi } from 'vitest';

it('a member whose data may not be read is read again after 30 seconds, and reported once', async () => {
  await simulate({ seed: 1 }, async (world) => {
    const [one, two] = [world.process('one'), world.process('two')];
    const [a, b] = await Promise.all([one, two].map((process) => process.client()));
    const errors: unknown[] = [];
    const member = new GroupMember(a!, '/group', {
      id: 'a',
      data: 'own',
      onError: (e) => errors.push(e),
    });
    const session = await one.run(() => a!.session());
    const get = session.get.bind(session);
    const refused = ['/group/a', '/group/b', '/group/a'];
    vi.spyOn(session, 'get').mockImplementation(((path: string, options: object) => {
      if (!refused.includes(path)) return get(path, options);
      refused.splice(refused.indexOf(path), 1);
      return Promise.reject(new NotAuthorizedError(`denied ${path}`));
    }) as never);
    await two.run(() => b!.ensureContainers('/group'));
    await two.run(() => b!.create('/group/b', 'data', { mode: 'ephemeral' }));
    await one.run(() => member.start());
    await world.sleep(29_000);
    expect([...member.members.values()].map(String)).toEqual(['', '']);
    expect(errors).toHaveLength(2);
    await world.sleep(2_000);
    expect(member.members.get('b')?.toString()).toBe('data');
    expect(refused).toEqual([]);
    expect(errors).toHaveLength(2);
    await world.sleep(30_000);
    expect(member.members.get('a')?.toString()).toBe('own');
    await one.run(() => member.close());
  });
});
