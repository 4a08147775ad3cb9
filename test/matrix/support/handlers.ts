import assert from 'node:assert/strict';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { LockService, ZkClient } from 'nestjs-zookeeper';
import { ELECTION, type Instances, type Platform, until, withInstances } from './instances.js';
import type { Shop } from './shop.js';

/** What each transport's handlers offer: see any file of features/. */
export type Operation = 'sell' | 'attempt' | 'patience' | 'lead' | 'hold';

/** What a caller hears in place of a result. */
export class Refusal extends Error {
  constructor(
    readonly code: unknown,
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(`refused: ${JSON.stringify({ code, ...details })}`);
  }
}

export interface Transport {
  readonly shop: Shop;
  readonly metadata: ModuleMetadata;
  listen(app: INestApplication): Promise<unknown>;
  /** Resolves with the result, or rejects with a {@link Refusal}; aborting it is hanging up. */
  call(app: INestApplication, operation: Operation, signal?: AbortSignal): Promise<unknown>;
  /** Whether the server hears of a caller that hangs up. */
  readonly hearsHangUp: boolean;
  /** What a refusal carries besides its code. */
  readonly refusals: Partial<Record<string, Readonly<Record<string, unknown>>>>;
}

/** That locked handlers exclude each other over two instances, and tell their callers what went wrong. */
export async function checkHandlers(platform: Platform, transport: Transport): Promise<void> {
  const { metadata, listen } = transport;
  await withInstances(platform, metadata, listen, async (instances) => {
    await excludes(transport, instances);
    await refuses(transport, instances);
    if (transport.hearsHangUp) await forgetsWhoHangsUp(transport, instances);
    await tellsOfLoss(transport, instances);
  });
}

async function excludes({ shop, call }: Transport, { one, other }: Instances) {
  const calls = [one, other, one, other, one, other].map((app) => call(app, 'sell'));
  assert.deepEqual(await Promise.all(calls), Array<string>(6).fill('goods-7'));
  assert.deepEqual({ most: shop.most, sold: shop.sold }, { most: 1, sold: 6 });
}

async function refuses({ call, refusals }: Transport, { one, other }: Instances) {
  const refusal = (code: string) => ({ code, details: refusals[code] ?? {} });
  await using _lease = await other.get(LockService).acquire('stock');
  await assert.rejects(call(one, 'attempt'), refusal('BUSY'));
  await assert.rejects(call(one, 'patience'), refusal('TIMEOUT'));
  await assert.rejects(call(other, 'lead'), refusal('NOT_LEADER'));
  assert.equal(await call(one, 'lead'), ELECTION);
}

async function forgetsWhoHangsUp({ call, shop }: Transport, { one, other }: Instances) {
  const locks = other.get(LockService);
  await using _lease = await locks.acquire('stock');
  const caller = new AbortController();
  const answer = call(one, 'hold', caller.signal);
  answer.catch(() => {});
  await until(async () => (await locks.participants('stock')).length === 2);
  caller.abort();
  await until(async () => (await locks.participants('stock')).length === 1);
  assert.equal(shop.holding, 0);
}

async function tellsOfLoss({ call, shop, refusals }: Transport, { zookeeper, one }: Instances) {
  const lost = call(one, 'hold');
  lost.catch(() => {});
  await until(() => shop.holding === 1);
  await zookeeper.expireSession(one.get(ZkClient));
  await assert.rejects(lost, { code: 'LEASE_LOST', details: refusals.LEASE_LOST ?? {} });
  assert.equal(shop.holding, 0);
}
