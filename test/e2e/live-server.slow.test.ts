import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Tally } from '../../sample-app/live/events.js';
import { running } from '../support/processes.js';
import { ListeningProcess } from './live-server-process.js';
import { Visitor } from './live-visitor.js';

const NUMBERS = [1, 2, 3];
const sum = ({ sold, soldOut, refused, unanswered }: Tally) =>
  sold + soldOut + refused + unanswered;

/** Lasts for about ten seconds. */
const SLOW = { mode: 'lock', buyers: 40, items: 30, delay: [300, 300] };

describe('the server of the live page', () => {
  let zookeeper: ListeningProcess;
  let server: ListeningProcess;
  let visitor: Visitor;

  beforeAll(async () => {
    zookeeper = await ListeningProcess.zookeeper();
    server = await ListeningProcess.liveServer({ ZOOKEEPER: zookeeper.address });
    visitor = await Visitor.open(server.address);
  });

  afterAll(async () => {
    await visitor?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
    await zookeeper?.[Symbol.asyncDispose]();
  });

  it('reports each step of a sale with a lock and one without, and counts every buyer', async () => {
    const order = { buyers: 60, items: 20, delay: [5, 10] };
    expect(await visitor.post('both', order)).toEqual({ status: 204 });
    const locked = await visitor.find('sale-started', ({ mode }) => mode === 'lock');
    const unlocked = await visitor.find('sale-started', ({ mode }) => mode === 'none');
    expect(locked.shares).toEqual([20, 20, 20]);
    const [one, other] = await Promise.all(
      [locked, unlocked].map(({ sale }) => visitor.find('sale-ended', (end) => end.sale === sale)),
    );
    expect(one).toMatchObject({ tally: { sold: 20, soldOut: 40 }, stock: 0, orders: 20 });
    expect(other!.orders).toBeGreaterThan(20);
    expect(other!.tally.sold).toBe(other!.orders);

    const written = await visitor.find(
      'stock-written',
      ({ sale, stock }) => sale === locked.sale && stock === 0,
    );
    const granted = await visitor.find('granted', ({ token }) => token === written.token);
    const { lease } = granted;
    const requested = await visitor.find('requested', (event) => event.lease === lease);
    const released = await visitor.find('released', (event) => event.lease === lease);
    expect(requested).toMatchObject({ key: 'goods-phone', sale: locked.sale });
    const times = [locked, requested, granted, written, released, one!].map(({ at }) => at);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(new Set([requested, granted, written, released].map((e) => e.instance)).size).toBe(1);
  });

  it('sends the same events to two visitors and to one who comes again', async () => {
    await using second = await Visitor.open(server.address);
    expect(await second.post('sale', { ...SLOW, delay: [0, 5] })).toEqual({ status: 204 });
    const { id } = await second.next('sale-ended');
    await visitor.find('sale-ended', (event) => event.id === id);
    await using again = await Visitor.open(server.address);
    const upTo = ({ events }: Visitor) => events.filter((event) => event.id <= id);
    expect(upTo(second)).toEqual(upTo(visitor));
    expect(upTo(again)).toEqual(upTo(visitor));
    expect(upTo(again).map((event) => event.id)).toEqual(
      Array.from({ length: id }, (_, i) => i + 1),
    );
  });

  it('reports within a second that ZooKeeper does not answer, and continues to send statuses', async () => {
    expect((await visitor.post('sale', SLOW)).status).toBe(204);
    const { sale } = await visitor.next('sale-started');
    await visitor.next('stock-written', (event) => event.sale === sale);
    zookeeper.kill('SIGSTOP');
    const silent = await visitor.next('ensemble');
    expect(silent.answers).toBe(false);
    const { ensemble, instances } = await visitor.nextStatus(({ at }) => at > silent.at);
    expect(ensemble.answers).toBe(false);
    // A second of silence, a check every tenth of a second, and some time for a busy machine.
    expect(silent.at - ensemble.confirmedAt!).toBeLessThan(2_000);

    // No instance seems to be confirmed while nothing answers, and the figures of the database stay fresh.
    const later = await visitor.nextStatus(({ at }) => at > silent.at + 1_500);
    expect(later.ensemble.confirmedAt).toBe(ensemble.confirmedAt);
    expect(later.instances.map(({ confirmedAt }) => confirmedAt)).toEqual(
      instances.map(({ confirmedAt }) => confirmedAt),
    );
    expect(later.at - later.sales[0]!.confirmedAt!).toBeLessThan(1_000);
    const between = visitor.statuses.filter(({ at }) => at > silent.at && at < later.at);
    expect(between.length).toBeGreaterThanOrEqual(5);

    zookeeper.kill('SIGCONT');
    expect((await visitor.next('ensemble')).answers).toBe(true);
    const { tally, orders } = await visitor.next('sale-ended', (event) => event.sale === sale);
    expect(sum(tally)).toBe(SLOW.buyers);
    expect(orders).toBe(SLOW.items);
  });

  it('counts the buyers of killed instances as unanswered, and revives the instances', async () => {
    expect((await visitor.post('sale', { ...SLOW, buyers: 90 })).status).toBe(204);
    const { sale } = await visitor.next('sale-started');
    await visitor.next('stock-written', (event) => event.sale === sale);
    for (const number of NUMBERS) {
      expect(await visitor.post(`instances/${number}/kill`)).toEqual({ status: 204 });
    }
    const ended = await visitor.next('sale-ended');
    expect(sum(ended.tally)).toBe(90);
    expect(ended.tally.unanswered).toBeGreaterThan(80);
    expect(ended.stock! + ended.orders!).toBe(SLOW.items);
    const { instances, sales } = await visitor.nextStatus(({ at }) => at > ended.at);
    expect(instances.map(({ life }) => life)).toEqual(['dead', 'dead', 'dead']);
    expect(sales).toMatchObject([{ sale, state: 'over', tally: ended.tally }]);

    expect(await visitor.post('sale', SLOW)).toMatchObject({ status: 503 });
    const revived = await Promise.all(
      NUMBERS.map((number) => visitor.post(`instances/${number}/revive`)),
    );
    expect(revived.map(({ status }) => status)).toEqual([204, 204, 204]);
    await visitor.nextStatus(({ instances: all }) =>
      all.every(
        ({ life, faults, connection }) =>
          life === 'alive' && faults.length === 0 && connection === 'CONNECTED',
      ),
    );
    expect((await visitor.post('sale', { ...SLOW, buyers: 9, items: 5 })).status).toBe(204);
    expect((await visitor.next('sale-ended')).tally).toMatchObject({ sold: 5, soldOut: 4 });
  });

  it('cuts the network of an instance and heals it', async () => {
    expect((await visitor.post('instances/2/cut', { seconds: 60 })).status).toBe(204);
    expect(await visitor.post('instances/2/cut')).toEqual({
      status: 409,
      message: 'instance 2 is cut off already',
    });
    const ofTwo = ({ instance }: { instance?: number }) => instance === 2;
    expect(await visitor.next('fault', ofTwo)).toMatchObject({ fault: 'cut' });
    await visitor.next('connection', (event) => ofTwo(event) && event.state === 'LOST');
    const { instances, ensemble } = await visitor.nextStatus(() => true);
    expect(ensemble.answers).toBe(true);
    expect(instances[1]).toMatchObject({ life: 'alive', faults: ['cut'] });
    expect((await visitor.post('instances/2/heal')).status).toBe(204);
    expect(await visitor.next('fault-ended', ofTwo)).toMatchObject({ fault: 'cut' });
    await visitor.next('connection', (event) => ofTwo(event) && event.state === 'CONNECTED');
    expect((await visitor.post('instances/2/heal')).status).toBe(409);
  });

  it('pauses ZooKeeper for all of its clients, beside a cut, and resumes it by itself', async () => {
    expect((await visitor.post('instances/2/cut', { seconds: 60 })).status).toBe(204);
    expect((await visitor.post('zookeeper/pause', { seconds: 8 })).status).toBe(204);
    expect(await visitor.post('zookeeper/pause')).toEqual({
      status: 409,
      message: 'ZooKeeper is paused already',
    });
    const ofZookeeper = ({ instance }: { instance?: number }) => instance === undefined;
    const paused = await visitor.next('fault', ofZookeeper);
    await visitor.next('ensemble', ({ answers }) => !answers);
    // In either order.
    for (const awaited = new Set([1, 3]); awaited.size > 0;) {
      const lost = await visitor.next(
        'connection',
        ({ instance, state }) => state === 'LOST' && awaited.has(instance),
      );
      awaited.delete(lost.instance);
    }
    expect((await visitor.nextStatus(() => true)).ensemble).toMatchObject({
      ...{ answers: false, isPaused: true },
    });
    const resumed = await visitor.next('fault-ended', ofZookeeper);
    expect(resumed.at - paused.at).toBeGreaterThan(7_900);
    await visitor.next('ensemble', ({ answers }) => answers);
    const { instances } = await visitor.nextStatus(({ instances: all }) =>
      [0, 2].every((index) => all[index]!.connection === 'CONNECTED'),
    );
    // The cut has not ended with the pause.
    expect(instances[1]!.connection).toBe('LOST');
    expect((await visitor.post('instances/2/heal')).status).toBe(204);
    await visitor.nextStatus(({ instances: all }) => all[1]!.connection === 'CONNECTED');
    expect((await visitor.post('zookeeper/pause', { seconds: 60 })).status).toBe(204);
    expect((await visitor.post('zookeeper/resume')).status).toBe(204);
    expect((await visitor.post('zookeeper/resume')).status).toBe(409);
    await visitor.next('fault-ended', ofZookeeper);
  });

  it('ends the pause of an instance that is killed without an event of its own', async () => {
    expect((await visitor.post('instances/3/pause', { seconds: 60 })).status).toBe(204);
    const { id } = await visitor.next('fault', ({ fault }) => fault === 'pause');
    expect((await visitor.post('instances/3/kill')).status).toBe(204);
    await visitor.next('died');
    expect((await visitor.post('instances/3/revive')).status).toBe(204);
    await visitor.find('fault-ended', (event) => event.id > id && event.fault === 'kill');
    const { instances } = await visitor.nextStatus(() => true);
    expect(instances[2]).toMatchObject({ life: 'alive', faults: [] });
    const ended = visitor.events.filter((event) => event.id > id && event.type === 'fault-ended');
    expect(ended).toMatchObject([{ instance: 3, fault: 'kill' }]);
  });

  it.each([
    ['sale', { ...SLOW, buyers: 0 }, 400, 'buyers must be a whole number from 1 to 2000, but is 0'],
    ['both', { ...SLOW, mode: 'none' }, 400, 'mode must be one of lock, lingering, strict'],
    ['instances/1/pause', { seconds: 61 }, 400, 'seconds must be a whole number from 1 to 60'],
    ['instances/4/kill', {}, 404, 'there is no instance 4'],
    ['instances/x/kill', {}, 400, 'instance must be a whole number, but is "x"'],
    ['instances/1/revive', {}, 409, 'instance 1 is not dead'],
    ['instances/1/resume', {}, 409, 'instance 1 is not paused'],
    ['instances/1/expire', {}, 409, 'only sessions of the embedded ZooKeeper can be expired'],
    ['scenarios/none', {}, 404, 'there is no scenario none; there are oversell, herd,'],
    ['scenarios/stop', {}, 409, 'no scenario is running'],
  ])('refuses %s with %j', async (path, body, status, message) => {
    expect(await visitor.post(path, body)).toEqual({
      status,
      message: expect.stringContaining(message) as string,
    });
  });
});

describe('a server of the live page with a paused instance', () => {
  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'leaves no process behind when it ends by %s',
    async (signal) => {
      await using server = await ListeningProcess.liveServer();
      await using visitor = await Visitor.open(server.address);
      const { instances } = await visitor.nextStatus(() => true);
      expect((await visitor.post('instances/1/pause', { seconds: 5 })).status).toBe(204);
      await visitor.next('fault');
      await server.stop(signal);
      const pids = instances.map(({ pid }) => pid!);
      await expect.poll(() => running(pids)).toEqual([]);
    },
  );
});
