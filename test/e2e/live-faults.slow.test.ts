import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Scenario } from '../../sample-app/live/events.js';
import { ListeningProcess } from './live-server-process.js';
import { Visitor } from './live-visitor.js';

/** Each hold lasts for half a second. */
const SLOW = { mode: 'lock', buyers: 12, items: 8, delay: [500, 500] };

describe('an instance of the live page', () => {
  let server: ListeningProcess;
  let visitor: Visitor;

  beforeAll(async () => {
    server = await ListeningProcess.liveServer();
    visitor = await Visitor.open(server.address);
  });

  afterAll(async () => {
    await visitor?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  /** Starts a sale. Resolves when an instance has read the stock, and will write it half a second later. */
  async function holder() {
    expect((await visitor.post('sale', SLOW)).status).toBe(204);
    const { sale } = await visitor.next('sale-started');
    // The last events of the sale before it may come after its end.
    return visitor.next('stock-read', (event) => event.sale === sale);
  }

  it('that is paused while it holds the lock loses its lease, and the fence refuses its write', async () => {
    const { instance, sale, token, purchase } = await holder();
    expect((await visitor.post(`instances/${instance}/pause`)).status).toBe(204);
    const { movesOnAt } = await visitor
      .nextStatus(({ instances }) => instances[instance - 1]!.movesOnAt !== undefined)
      .then(({ instances }) => instances[instance - 1]!);
    const granted = await visitor.next('granted', (event) => event.instance !== instance);
    expect(granted.at).toBeGreaterThanOrEqual(movesOnAt!);
    await visitor.next('fault-ended', (event) => event.fault === 'pause');

    const lease = visitor.events.find((e) => e.type === 'granted' && e.token === token);
    await visitor.find('lost', (event) => 'lease' in lease! && event.lease === lease.lease);
    const refused = await visitor.find('write-refused', (event) => event.purchase === purchase);
    expect(refused).toMatchObject({ instance, sale, token });
    const { tally, stock, orders } = await visitor.next('sale-ended');
    expect({ tally, stock, orders }).toEqual({
      tally: { sold: 8, soldOut: 3, refused: 1, unanswered: 0 },
      stock: 0,
      orders: 8,
    });
    const { sales } = await visitor.nextStatus(() => true);
    expect(BigInt(sales[0]!.fence!)).toBeGreaterThan(BigInt(token!));
  });

  it('that is cut off while it holds the lock is suspended, and the lock moves on with its session', async () => {
    const { instance, token } = await holder();
    expect((await visitor.post(`instances/${instance}/cut`, { seconds: 60 })).status).toBe(204);
    const { movesOnAt } = await visitor
      .nextStatus(({ instances }) => instances[instance - 1]!.movesOnAt !== undefined)
      .then(({ instances }) => instances[instance - 1]!);
    const lost = await visitor.next('connection', (event) => event.state === 'LOST');
    expect(lost.instance).toBe(instance);
    const { instances } = await visitor.nextStatus(() => true);
    expect(instances[instance - 1]).toMatchObject({ holds: false, faults: ['cut'], movesOnAt });
    const granted = await visitor.next('granted', (event) => event.instance !== instance);
    expect(BigInt(granted.token)).toBeGreaterThan(BigInt(token!));
    expect(granted.at).toBeGreaterThanOrEqual(movesOnAt!);
    expect((await visitor.post(`instances/${instance}/heal`)).status).toBe(204);
    expect((await visitor.next('sale-ended')).orders).toBe(8);
  });

  it('whose session expires has a new one', async () => {
    const { instance } = await holder();
    expect((await visitor.post(`instances/${instance}/expire`)).status).toBe(204);
    await visitor.next('lost', (event) => event.instance === instance);
    await visitor.next('fault-ended', (event) => event.fault === 'expire');
    expect((await visitor.next('sale-ended')).orders).toBe(8);
  });

  const SCENARIOS: [Scenario, string[]][] = [
    ['oversell', ['start', 'same-stock', 'end']],
    ['herd', ['start', 'queue', 'release', 'end']],
    ['sleeping-holder', ['start', 'sleep', 'moved-on', 'wake', 'lost', 'refused', 'end']],
    ['killed-leader', ['start', 'kill', 'elected', 'revive', 'end']],
  ];

  it.each(SCENARIOS)('plays the scenario %s', async (scenario, captions) => {
    expect(await visitor.post(`scenarios/${scenario}`)).toEqual({ status: 204 });
    const { id } = await visitor.next('caption', ({ caption }) => caption === 'start');
    await visitor.next('caption', ({ caption }) => ['end', 'aborted'].includes(caption));
    const played = visitor.events.flatMap((event) =>
      event.type === 'caption' && event.id >= id ? event.caption : [],
    );
    // The loss and the refusal may come in either order.
    expect(played.toSorted()).toEqual(captions.toSorted());
    expect([played[0], played.at(-1)]).toEqual(['start', 'end']);
    const status = await visitor.nextStatus((s) => s.scenario === undefined);
    expect(status.instances).toMatchObject(
      Array.from({ length: 3 }, () => ({ life: 'alive', faults: [] })),
    );
  });

  it('does not begin a scenario on a ZooKeeper that is paused', async () => {
    expect((await visitor.post('zookeeper/pause', { seconds: 20 })).status).toBe(204);
    const paused = await visitor.next('fault');
    expect((await visitor.post('scenarios/oversell')).status).toBe(204);
    const ended = await visitor.next('fault-ended');
    expect(ended.at - paused.at).toBeLessThan(10_000);
    await visitor.next('caption', ({ caption }) => ['end', 'aborted'].includes(caption));
    await visitor.nextStatus((s) => s.scenario === undefined);
  });

  it('is part of no result that a scenario states if it dies', async () => {
    expect((await visitor.post('scenarios/herd')).status).toBe(204);
    await visitor.next('caption', ({ caption }) => caption === 'release');
    process.kill(visitor.status!.instances[0]!.pid!, 'SIGKILL');
    const { tally } = await visitor.next('sale-ended');
    expect(tally.unanswered).toBeGreaterThan(0);
    const { caption } = await visitor.next('caption');
    expect(caption).toBe('aborted');
    await visitor.nextStatus(
      ({ scenario, instances }) =>
        scenario === undefined && instances.every(({ life }) => life === 'alive'),
    );
  });

  it('continues the sale when its scenario is stopped while it waits for the end of the sale', async () => {
    expect((await visitor.post('scenarios/herd')).status).toBe(204);
    const { sale } = await visitor.next('sale-started');
    await visitor.next('caption', ({ caption }) => caption === 'release');
    expect((await visitor.post('scenarios/stop')).status).toBe(204);
    const { caption, id } = await visitor.next('caption');
    expect(caption).toBe('aborted');
    const ended = await visitor.next('sale-ended', (event) => event.sale === sale);
    expect(ended).toMatchObject({ orders: 20 });
    expect(ended.id).toBeGreaterThan(id);
  });

  it('has only the faults of a scenario, and none after the scenario was stopped', async () => {
    expect((await visitor.post('scenarios/sleeping-holder')).status).toBe(204);
    await visitor.next('fault');
    for (const path of ['sale', 'instances/1/kill', 'instances/1/resume', 'instances/1/revive']) {
      expect(await visitor.post(path, path === 'sale' ? SLOW : {})).toEqual({
        status: 409,
        message: 'the scenario sleeping-holder is running: stop it first',
      });
    }
    expect((await visitor.post('scenarios/stop')).status).toBe(204);
    expect(await visitor.next('fault-ended')).toMatchObject({ fault: 'pause' });
    await visitor.find('caption', ({ caption }) => caption === 'aborted');
    expect((await visitor.post('scenarios/stop')).status).toBe(409);
    // The sale continues without the scenario.
    expect((await visitor.next('sale-ended')).orders).toBe(10);
  });
});
