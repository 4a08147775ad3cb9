import { afterAll, beforeAll, expect, it } from 'vitest';
import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import { Ensemble } from '../../scripts/faults/ensemble.js';
import type { RealServer } from '../../scripts/faults/real-server.mjs';
import { transport } from '../support/environment.js';
import { eventually } from '../support/eventually.js';

// Three real servers, one of which is cut off from the others.

const TICK_TIME = 500;
/** The shortest timeout for which docs/evidence/shortest-timeout.md shows that no lease outlives its session: eight ticks. */
const SESSION_TIMEOUT = 8 * TICK_TIME;
/** An isolated server continues for ten seconds, and the leader of the others expires the sessions of its clients. */
const SYNC_LIMIT = 20;

let ensemble: Ensemble;

beforeAll(async () => {
  ensemble = await Ensemble.start({ tickTime: TICK_TIME, syncLimit: SYNC_LIMIT, linked: true });
});
afterAll(() => ensemble?.stop());

async function connect(ports: readonly number[]): Promise<ZkClient> {
  const client = new ZkClient({
    connectString: ports.map((port) => `127.0.0.1:${port}`).join(),
    sessionTimeout: SESSION_TIMEOUT,
    transport,
    retry: { type: 'forever', delay: 100 },
  });
  await client.connect();
  return client;
}

async function serverIn(role: 'follower' | 'leader'): Promise<RealServer> {
  return eventually(async () => {
    const server = role === 'leader' ? await ensemble.leader() : (await ensemble.followers())[0];
    if (!server) throw new Error(`the ensemble has no ${role}`);
    return server;
  });
}

it.each([
  // A follower without a leader answers reads, which do not keep a lease.
  { role: 'follower', ask: (holder: ZkClient) => holder.exists('/'), keepsLease: false },
  // A leader without followers answers syncs, too, and each answer keeps the lease for a while.
  { role: 'leader', ask: (holder: ZkClient) => holder.sync('/'), keepsLease: true },
] as const)(
  'a holder loses its lease before the next grant, although its $role, which is cut off, answers',
  async ({ role, ask, keepsLease }) => {
    await ensemble.quorum(3);
    const server = await serverIn(role);
    const holder = await connect([server.port]);
    const other = await connect(ensemble.ports.filter((port) => port !== server.port));
    const lease = await new Mutex(holder, '/partition').acquire();
    const waiting = new Mutex(other, '/partition').acquire();
    await ensemble.isolate(server);
    const isolated = performance.now();
    let answers = 0;
    const asking = (async () => {
      for (; lease.held; answers++) await ask(holder);
    })().catch(() => {});
    let lost = Infinity;
    lease.signal.addEventListener('abort', () => (lost = performance.now() - isolated));

    const next = await waiting;
    expect(lease.held).toBe(false);
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken);
    // Otherwise the server would have ended the connection of the holder, and the test would show nothing.
    expect(answers).toBeGreaterThan(0);
    expect(lost > SESSION_TIMEOUT).toBe(keepsLease);

    await ensemble.rejoin(server);
    await Promise.all([next.release(), asking]);
    await Promise.all([holder.close(), other.close()]);
  },
);
