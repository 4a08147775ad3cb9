import { setTimeout as delay } from 'node:timers/promises';
import { Controller, Get } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { BadOptionError, LockService, ShuttingDownError } from 'nestjs-zookeeper';
import type { SimulatedProcess } from 'nestjs-zookeeper/testing';
import { ZkHealthIndicator } from 'nestjs-zookeeper/terminus';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { get } from '../../support/http-calls.js';
import { type AppOptions, useApps } from '../../support/nest-apps.js';
import { useServer } from '../../support/servers.js';
import { recordStates } from '../../support/sessions.js';
import { currentWorld, it } from '../../support/virtual-time.js';

const zk = useServer();
const apps = useApps(zk);

@Controller('health')
class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly zookeeper: ZkHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  check() {
    return this.health.check([() => this.zookeeper.isHealthy('zookeeper')]);
  }

  @Get('members')
  @HealthCheck()
  members() {
    const details = () => ({ members: ['a', 'b'] });
    return this.health.check([() => this.zookeeper.isHealthy('zookeeper', { details })]);
  }

  @Get('orders')
  @HealthCheck()
  orders() {
    return this.health.check([
      () => this.zookeeper.isHealthy('ordering', { connection: 'orders' }),
    ]);
  }
}

const metadata = {
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [ZkHealthIndicator],
};

async function start(options?: AppOptions, process?: SimulatedProcess) {
  const app = await apps.start(metadata, options, process);
  const health = async (path = '') => {
    const { status: http, body } = await get(app, `/health${path}`);
    return { http, ...(body as Report) };
  };
  return Object.assign(app, { health });
}

interface Report {
  status: string;
  details: Record<string, { status: string; state: string; transport?: string }>;
}

describe('the health of an application', () => {
  it('is up while it is connected, with the state, the transport and the details of the application', async () => {
    const app = await start();
    const zookeeper = { status: 'up', state: 'CONNECTED', transport: app.client.transport };
    expect(app.client.transport).toBeDefined();
    // Without the id of the session, from which its password can be computed.
    expect(await app.health()).toMatchObject({ http: 200, status: 'ok', details: { zookeeper } });
    expect((await app.health()).details).toEqual({ zookeeper });
    const { details } = await app.health('/members');
    expect(details.zookeeper).toMatchObject({ ...zookeeper, members: ['a', 'b'] });
  });

  it.each([
    [() => Promise.reject(new Error('late')), 'details must not return a promise'],
    [
      () => {
        throw new TypeError('no group');
      },
      'TypeError: no group',
    ],
  ])('reports its status if the details of the application fail', async (details, detailsError) => {
    const warning = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    onTestFinished(() => warning.mockRestore());
    const app = await start();
    const indicator = app.get(ZkHealthIndicator);
    const { state } = app.client;
    expect(indicator.isHealthy('zookeeper', { details })).toMatchObject({
      zookeeper: { status: 'up', state, detailsError },
    });
    await app.close();
    expect(indicator.isHealthy('zookeeper', { details })).toMatchObject({
      zookeeper: { status: 'down', detailsError },
    });
  });

  it('is degraded while suspended, down when lost, and up again with the next session', async () => {
    const process = currentWorld().process('app');
    const app = await start({ sessionTimeout: 4000 }, process);
    const seen = recordStates(app.client);

    const allow = process.link.refuseConnections();
    process.link.reset();
    await seen.until('SUSPENDED');
    expect(await app.health()).toMatchObject({
      http: 200,
      status: 'degraded',
      details: { zookeeper: { status: 'degraded', state: 'SUSPENDED' } },
    });

    await seen.until('SUSPENDED', 'LOST');
    expect(await app.health()).toMatchObject({
      http: 503,
      status: 'error',
      details: { zookeeper: { status: 'down', state: 'LOST' } },
    });

    allow();
    await seen.until('LOST', 'CONNECTED');
    expect(await app.health()).toMatchObject({
      http: 200,
      details: { zookeeper: { status: 'up', state: 'CONNECTED' } },
    });
  });

  it('is up again with the same session if the connection is restored in time', async () => {
    const process = currentWorld().process('app');
    const app = await start({}, process);
    const seen = recordStates(app.client);
    process.link.reset();
    await seen.until('SUSPENDED', 'RECONNECTED');
    expect(await app.health()).toMatchObject({
      http: 200,
      details: { zookeeper: { status: 'up', state: 'RECONNECTED' } },
    });
  });

  it('is down before the first connection of an application with lazyConnection', async () => {
    await zk.stop();
    const app = await start({ lazyConnection: true });
    expect(await app.health()).toMatchObject({
      http: 503,
      details: { zookeeper: { status: 'down', state: 'CONNECTING' } },
    });
  });

  it('can be queried for each named connection', async () => {
    const app = await start({ name: 'orders' });
    expect(await app.health('/orders')).toMatchObject({
      http: 200,
      details: { ordering: { status: 'up' } },
    });
    const indicator = app.get(ZkHealthIndicator);
    expect(() => indicator.isHealthy('zookeeper')).toThrow('ZkClient');
    expect(() => indicator.isHealthy('x', { connection: '' })).toThrow(BadOptionError);
    expect(() => indicator.isHealthy('x', { name: 'orders' } as never)).toThrow(BadOptionError);
  });
});

it('an application with gracefulShutdownTimeoutMs grants locks until Terminus has waited', async () => {
  const imports = [TerminusModule.forRoot({ logger: false, gracefulShutdownTimeoutMs: 3_000 })];
  const app = await apps.start({ imports });
  const locks = app.get(LockService);
  // Terminus waits after SIGTERM only.
  const closed = (app as { close(signal: string): Promise<void> }).close('SIGTERM');
  await delay(2_000);
  const lease = await locks.acquire('stock');
  await delay(2_000);
  await expect(locks.acquire('other')).rejects.toThrow(ShuttingDownError);
  await lease.release();
  await closed;
});
