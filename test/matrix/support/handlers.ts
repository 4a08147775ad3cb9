import assert from 'node:assert/strict';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { LockService, ZkClient } from 'nestjs-zookeeper';
import { ELECTION, type Instances, type Platform, until, withInstances } from './instances.js';
import type { Shop } from './shop.js';

/** What the handlers of each transport offer. The files of features/ implement it. */
export type Operation = 'sell' | 'attempt' | 'patience' | 'lead' | 'hold';

/** The error that a caller receives instead of a result. */
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
  /**
   * Sends a request. Resolves with the result, or rejects with a {@link Refusal}. Aborting the
   * signal disconnects.
   */
  call(app: INestApplication, operation: Operation, signal?: AbortSignal): Promise<unknown>;
  /** Whether the transport detects a client that disconnects. */
  readonly detectsDisconnect: boolean;
  /** The fields of a refusal besides its code. */
  readonly refusals: Partial<Record<string, Readonly<Record<string, unknown>>>>;
}

/**
 * Checks that locked handlers of two instances exclude each other, and that callers receive the
 * errors.
 */
export async function checkHandlers(platform: Platform, transport: Transport): Promise<void> {
  const { metadata, listen } = transport;
  await withInstances(platform, metadata, listen, async (instances) => {
    await checkExclusion(transport, instances);
    await checkErrors(transport, instances);
    if (transport.detectsDisconnect) await checkDisconnect(transport, instances);
    await checkLostLease(transport, instances);
  });
}

async function checkExclusion({ shop, call }: Transport, { one, other }: Instances) {
  const calls = [one, other, one, other, one, other].map((app) => call(app, 'sell'));
  assert.deepEqual(await Promise.all(calls), Array<string>(6).fill('goods-7'));
  assert.deepEqual({ most: shop.most, sold: shop.sold }, { most: 1, sold: 6 });
}

async function checkErrors({ call, refusals }: Transport, { one, other }: Instances) {
  const refusal = (code: string) => ({ code, details: refusals[code] ?? {} });
  await using _lease = await other.get(LockService).acquire('stock');
  await assert.rejects(call(one, 'attempt'), refusal('BUSY'));
  await assert.rejects(call(one, 'patience'), refusal('TIMEOUT'));
  await assert.rejects(call(other, 'lead'), refusal('NOT_LEADER'));
  assert.equal(await call(one, 'lead'), ELECTION);
}

async function checkDisconnect({ call, shop }: Transport, { one, other }: Instances) {
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

async function checkLostLease({ call, shop, refusals }: Transport, { zookeeper, one }: Instances) {
  const lost = call(one, 'hold');
  lost.catch(() => {});
  await until(() => shop.holding === 1);
  await zookeeper.expireSession(one.get(ZkClient));
  await assert.rejects(lost, { code: 'LEASE_LOST', details: refusals.LEASE_LOST ?? {} });
  assert.equal(shop.holding, 0);
}
