import { simulate, type SimulatedServer, type World } from 'nestjs-zookeeper/testing';
import { describe, expect, it } from 'vitest';
import type { SimulationOptions } from '../../../../lib/testing/simulation/options.js';

async function connected(world: World, name = 'a', sessionTimeout = 3000) {
  const process = world.process(name);
  const client = await process.client({ sessionTimeout });
  const states: string[] = [];
  client.onState(({ state }) => states.push(state));
  return { process, client, states };
}

type Connected = Awaited<ReturnType<typeof connected>>;

/** Runs a scenario with a client that has connected. */
async function withClient(
  { sessionTimeout, ...options }: SimulationOptions & { sessionTimeout?: number },
  scenario: (run: Connected & { world: World; server: SimulatedServer }) => Promise<void>,
): Promise<void> {
  await simulate({ seed: 1, ...options }, async (world) => {
    const client = await connected(world, 'a', sessionTimeout);
    await scenario({ world, server: world.servers[0]!, ...client });
  });
}

/** Runs a scenario with two clients, once for each of several seeds. */
async function forSeeds(
  seeds: number,
  options: SimulationOptions,
  scenario: (a: Connected, b: Connected, world: World) => Promise<void>,
): Promise<void> {
  for (let seed = 1; seed <= seeds; seed++) {
    await simulate({ seed, ...options }, async (world) =>
      scenario(await connected(world, 'a', 20_000), await connected(world, 'b'), world),
    );
  }
}

describe('a simulated server', () => {
  it('keeps its data and its sessions after a crash and a restart, but not its watches', () =>
    withClient({}, async ({ world, server, process, client, states }) => {
      const { sessionId } = client;
      await process.run(() => client.create('/node', 'data', { mode: 'ephemeral' }));
      await process.run(() => client.watch('/node'));
      expect(world.watchCount).toBe(1);
      server.crash();
      expect([server.state, world.watchCount]).toEqual(['stopped', 0]);
      await world.sleep(60_000);
      expect(world.znodes()).toMatchObject([{ path: '/node', session: sessionId }]);
      server.restart();
      await world.sleep(10);
      expect(world.sessionIds).toEqual([sessionId]);
      expect(states.slice(0, 2)).toEqual(['SUSPENDED', 'LOST']);
    }));

  it('gives each session its full timeout again after a restart', () =>
    withClient({ tickTime: 1000, sessionTimeout: 4000 }, async ({ world, server, process }) => {
      process.crash({ silently: true });
      // Without the crash, the session would expire at the tick of 5 s.
      await world.sleep(4200);
      server.crash();
      server.restart();
      await world.sleep(3500);
      expect(world.sessionIds).toHaveLength(1);
      await world.sleep(3500);
      expect(world.sessionIds).toEqual([]);
    }));

  it('does not notify its clients of a silent crash, and resets old connections after its restart', () =>
    withClient({ sessionTimeout: 20_000 }, async ({ world, server, process, client, states }) => {
      server.crash({ silently: true });
      expect(server.state).toBe('unreachable');
      const creating = process
        .run(() => client.create('/node'))
        .catch((error: Error) => error.name);
      await world.sleep(2000);
      expect(states).toEqual([]);
      server.restart();
      await world.sleep(1500);
      expect(states).toEqual(['SUSPENDED', 'RECONNECTED']);
      expect(await creating).toBe('ConnectionError');
    }));

  it('handles no requests while it is paused', () =>
    withClient({ sessionTimeout: 10_000 }, async ({ world, server, process, client }) => {
      server.pause();
      expect(server.isServing).toBe(false);
      const creating = process.run(() => client.create('/node'));
      await world.sleep(1000);
      expect(world.znodes()).toEqual([]);
      server.resume();
      await creating;
    }));

  it('ignores faults after its crash, and does not add them to the trace', () =>
    simulate({ seed: 4 }, (world) => {
      const server = world.servers[0]!;
      server.crash();
      const traced = world.trace.length;
      server.pause();
      server.resume();
      server.crash({ silently: true });
      expect(server.state).toBe('stopped');
      expect(world.trace).toHaveLength(traced);
      server.restart();
      server.restart();
      expect(world.trace.slice(traced)).toMatchObject([
        { process: server.address, event: 'restarted' },
      ]);
    }));

  it('does not notify a client of the end of its session while it is paused', () =>
    withClient({ servers: 3, sessionTimeout: 30_000 }, async ({ world, client, states }) => {
      for (const server of world.servers) server.pause();
      world.expireSession(client);
      await world.sleep(1000);
      expect(states).toEqual([]);
      for (const server of world.servers) server.resume();
      await world.sleep(1000);
      expect(states).toEqual(['SUSPENDED', 'LOST', 'CONNECTED']);
    }));

  it('ends a session and deletes its ephemeral nodes on request of the scenario', () =>
    withClient({}, async ({ world, process, client, states }) => {
      await process.run(() => client.create('/node', '', { mode: 'ephemeral' }));
      world.expireSession(client);
      expect(world.znodes()).toEqual([]);
      expect(() => world.expireSession(client)).toThrow(
        `simulate: the servers have no session 0x${client.sessionId}; it expired or was closed`,
      );
      const closed = await process.client();
      await process.run(() => closed.close());
      const without = 'has no session, because it is closed or not yet connected';
      expect(() => world.expireSession(closed)).toThrow(
        `simulate: the client of expireSession() ${without}`,
      );
      const traced = world.trace.length;
      expect(() => world.loseReply('create', closed)).toThrow(
        `simulate: the client of loseReply() ${without}`,
      );
      expect(world.trace).toHaveLength(traced);
      await world.sleep(100);
      expect(states).toEqual(['SUSPENDED', 'LOST', 'CONNECTED']);
    }));

  it('has no lag if it is the only server', async () => {
    await simulate({ seed: 7, lag: [1000, 1000] }, async (world) => {
      const a = await connected(world, 'a');
      const b = await connected(world, 'b');
      await a.process.run(() => a.client.create('/node', '', { mode: 'ephemeral' }));
      world.expireSession(a.client);
      await world.sleep(1);
      expect(await b.process.run(() => b.client.exists('/node'))).toBeUndefined();
    });
  });
});

describe('an ensemble', () => {
  it('serves stale reads until a sync', async () => {
    let stale = 0;
    await forSeeds(12, { servers: 2, lag: [500, 500] }, async (a, b) => {
      await a.process.run(() => a.client.create('/node'));
      const read = await b.process.run(() => b.client.exists('/node'));
      if (!read) stale++;
      await b.process.run(() => b.client.sync('/'));
      expect(await b.process.run(() => b.client.exists('/node'))).toBeDefined();
    });
    expect(stale).toBeGreaterThan(0);
    expect(stale).toBeLessThan(12);
  });

  it('shows a write to its writer at once, and to other clients after the lag at most', () =>
    forSeeds(5, { servers: 3, lag: [50, 100] }, async (a, b, world) => {
      await a.process.run(() => a.client.create('/node'));
      expect(await a.process.run(() => a.client.exists('/node'))).toBeDefined();
      await world.sleep(100);
      expect(await b.process.run(() => b.client.exists('/node'))).toBeDefined();
    }));

  it('fires a watch before the reply that shows the change', () =>
    forSeeds(10, { servers: 2, lag: [0, 50] }, async (a, b) => {
      const events: string[] = [];
      await b.process.run(async () => {
        const { watch } = await b.client.watchExists('/node');
        void watch.fired.then(() => events.push('event'));
      });
      await a.process.run(() => a.client.create('/node'));
      await b.process.run(async () => {
        while (!(await b.client.exists('/node')));
        events.push('seen');
      });
      expect(events).toEqual(['event', 'seen']);
    }));

  it('never shows older data to a session that moves: a server that lags behind refuses it', async () => {
    let moved = 0;
    await forSeeds(
      12,
      { servers: 2, lag: [2000, 2000] },
      async ({ process, client, states }, _, world) => {
        await process.run(() => client.create('/node'));
        const before = world.now;
        process.link.reset();
        await process.run(async () => {
          await client.session();
          expect(await client.exists('/node')).toBeDefined();
        });
        expect(states).toEqual(['SUSPENDED', 'RECONNECTED']);
        if (world.now - before > 1) moved++;
      },
    );
    expect(moved).toBeGreaterThan(0);
  });

  it('serves the latest data from a server that has just started', async () => {
    let moved = 0;
    for (let seed = 1; seed <= 12; seed++) {
      await simulate({ seed, servers: 3, lag: [60_000, 60_000] }, async (world) => {
        const [first, second] = world.servers;
        first!.crash();
        const { process, client, states } = await connected(world, 'a', 20_000);
        await process.run(() => client.create('/node'));
        first!.restart();
        second!.crash();
        await world.sleep(2000);
        if (states.length > 0) {
          // The third server lags behind and refuses the client.
          expect(states).toEqual(['SUSPENDED', 'RECONNECTED']);
          moved++;
        }
        expect(await process.run(() => client.exists('/node'))).toBeDefined();
      });
    }
    expect(moved).toBeGreaterThan(0);
  });

  it('lists the children of a znode, also those of the root', () =>
    withClient({}, async ({ world, process, client }) => {
      await process.run(() => client.create('/node'));
      await process.run(() => client.create('/node/child', 'data'));
      const paths = (parent: string) => world.children(parent).map(({ path }) => path);
      expect(paths('/node')).toEqual(['/node/child']);
      expect(paths('/')).toContain('/node');
      expect(paths('/absent')).toEqual([]);
    }));

  it('continues while a majority of its servers runs', () =>
    withClient({ servers: 3, sessionTimeout: 30_000 }, async ({ world, process, client }) => {
      world.servers[0]!.crash({ silently: true });
      await world.sleep(20_000);
      expect(await process.run(() => client.create('/node'))).toBe('/node');
      expect(world.servers.map(({ isServing }) => isServing)).toEqual([false, true, true]);
    }));

  it('serves no client without a majority, and expires no session', async () => {
    await simulate({ seed: 5, servers: 3, tickTime: 1000 }, async (world) => {
      const { process, client, states } = await connected(world, 'a', 4000);
      await process.run(() => client.create('/node', '', { mode: 'ephemeral' }));
      const gone = await connected(world, 'gone', 4000);
      const ids = [client.sessionId, gone.client.sessionId];
      gone.process.crash({ silently: true });
      const [first, second, third] = world.servers;
      first!.crash();
      second!.crash();
      await world.sleep(1000);
      expect(third!).toMatchObject({ state: 'running', isServing: false });
      expect(states).toEqual(['SUSPENDED']);
      await expect(process.client()).rejects.toThrow('no server of the ensemble could be used');
      await world.sleep(60_000);
      expect(world.sessionIds).toEqual(ids);

      second!.restart();
      expect(third!.isServing).toBe(true);
      const other = await process.client();
      expect(await process.run(() => other.exists('/node'))).toBeDefined();
      await process.run(() => other.close());
      await world.sleep(3500);
      expect(world.sessionIds).toContain(ids[1]);
      await world.sleep(3500);
      expect(world.sessionIds).not.toContain(ids[1]);
      await process.run(() => client.session());
      expect(client.connected).toBe(true);
    });
  });

  it('serves no client while a majority of its servers is paused', () =>
    withClient({ servers: 3 }, async ({ world, process, client }) => {
      for (const server of world.servers.slice(1)) server.pause();
      await world.sleep(5000);
      expect(world.servers.map(({ isServing }) => isServing)).toEqual([false, false, false]);
      expect(client.connected).toBe(false);
      world.servers[1]!.resume();
      await process.run(() => client.session());
      expect(await process.run(() => client.create('/node'))).toBe('/node');
    }));

  it.each([0, 1, 2])(
    'handles no request of resumed server %i before there is a majority',
    (resumed) =>
      withClient({ servers: 3, sessionTimeout: 30_000 }, async ({ world, process, client }) => {
        for (const server of world.servers) server.pause();
        const creating = process.run(() => client.create('/node')).catch(() => {});
        await world.sleep(100);
        world.servers[resumed]!.resume();
        await world.sleep(1000);
        expect(world.znodes()).toEqual([]);
        for (const server of world.servers) server.resume();
        await creating;
      }),
  );
});

describe('an isolated server', () => {
  /** Runs a scenario with two clients: `near` is connected to a server that was isolated just now, `far` to another one. */
  async function afterIsolation(
    options: { syncLimit: number; sessionTimeout: number },
    scenario: (run: {
      world: World;
      server: SimulatedServer;
      near: Connected;
      far: Connected;
    }) => Promise<void>,
  ): Promise<void> {
    const { syncLimit, sessionTimeout } = options;
    await simulate({ seed: 1, servers: 3, tickTime: 1000, syncLimit }, async (world) => {
      const near = await connected(world, 'near', sessionTimeout);
      await near.process.run(() => near.client.create('/near', '', { mode: 'ephemeral' }));
      const server = serverOf(world, near);
      let far = await connected(world, 'far 1', sessionTimeout);
      for (let name = 2; serverOf(world, far) === server; name++) {
        far = await connected(world, `far ${name}`, sessionTimeout);
      }
      await far.process.run(() => far.client.sync('/'));
      server.isolate();
      await scenario({ world, server, near, far });
    });
  }

  function serverOf(world: World, { client }: Connected): SimulatedServer {
    return world.servers.find(({ sessionIds }) => sessionIds.includes(client.sessionId!))!;
  }

  it('answers reads from its own data for the sync limit, and then disconnects its clients', async () => {
    const options = { syncLimit: 2, sessionTimeout: 20_000 };
    await afterIsolation(options, async ({ world, server, near, far }) => {
      expect(server).toMatchObject({ state: 'running', isolated: true, isServing: false });
      await far.process.run(() => far.client.create('/written'));
      const reads = () => near.process.run(() => near.client.exists('/written'));
      while (!(await reads())) {
        expect(near.states).toEqual([]);
        await world.sleep(100);
      }
      expect(world.now).toBeGreaterThan(2000);
      expect(world.now).toBeLessThan(2500);
      expect(near.states).toEqual(['SUSPENDED', 'RECONNECTED']);
    });
  });

  it('answers a write and the later reads of the same client when it has rejoined', async () => {
    const options = { syncLimit: 5, sessionTimeout: 20_000 };
    await afterIsolation(options, async ({ world, server, near, far }) => {
      const replies: string[] = [];
      const settled = (name: string) => () => void replies.push(name);
      const calls = near.process.run(() =>
        Promise.all([
          near.client.exists('/near').then(settled('read')),
          near.client.create('/late').then(settled('write')),
          near.client.exists('/late').then((stat) => settled(stat ? 'later read' : 'stale')()),
        ]),
      );
      await world.sleep(1000);
      expect(replies).toEqual(['read']);
      expect(await far.process.run(() => far.client.exists('/late'))).toBeUndefined();
      server.rejoin();
      await calls;
      expect(replies).toEqual(['read', 'write', 'later read']);
      expect(near.states).toEqual([]);
      expect(server).toMatchObject({ isolated: false, isServing: true });
    });
  });

  it('does not extend the sessions of its clients, and disconnects those whose session has expired', async () => {
    const options = { syncLimit: 20, sessionTimeout: 4000 };
    await afterIsolation(options, async ({ world, server, near }) => {
      const { sessionId } = near.client;
      // Without replies, the client would leave the server.
      near.process.pause();
      await world.sleep(6000);
      expect(world.sessionIds).not.toContain(sessionId);
      expect(world.znodes('/near')).toEqual([]);
      server.rejoin();
      near.process.resume();
      await near.process.run(() => near.client.session());
      expect(near.client.sessionId).not.toBe(sessionId);
    });
  });

  it('stays isolated after a restart', async () => {
    const options = { syncLimit: 5, sessionTimeout: 4000 };
    await afterIsolation(options, async ({ world, server, near, far }) => {
      server.crash();
      await far.process.run(() => far.client.create('/written'));
      server.restart();
      await near.process.run(() => near.client.session());
      expect(serverOf(world, near)).not.toBe(server);
      const others = world.servers.filter((each) => each !== server);
      others[0]!.crash();
      expect(others[1]!.isServing).toBe(false);
      server.rejoin();
      expect(others[1]!.isServing).toBe(true);
      await near.process.run(async () => {
        await near.client.session();
        expect(await near.client.exists('/written')).toBeDefined();
      });
    });
  });

  it('needs other servers', () =>
    simulate({ seed: 1 }, ({ servers: [server] }) =>
      expect(() => server!.isolate()).toThrow(
        'simulate: isolate() needs other servers; set the option servers to 2 or more',
      ),
    ));
});

describe('simulated servers that copy another server', () => {
  it('stamp the znodes as that server does', async () => {
    const options = { seed: 1, server: 'clickhouse-keeper', servers: 3 } as const;
    const { value } = await simulate(options, async (world) => {
      const process = world.process('a');
      const client = await process.client();
      await process.run(() => client.create('/node'));
      return world.znodes().map(({ path, czxid }) => [path, czxid]);
    });
    // The zxids before it opened the session and synchronised the client.
    expect(value).toEqual([['/node', 3]]);
  });

  it('end a session with its connection', async () => {
    await simulate({ seed: 1, server: 'clickhouse-keeper' }, async (world) => {
      const { client, states } = await connected(world);
      const { sessionId } = client;
      world.servers[0]!.crash();
      await world.sleep(100);
      world.servers[0]!.restart();
      await world.sleep(2000);
      expect(states).toContain('LOST');
      expect(client.sessionId).not.toBe(sessionId);
      // The old session remains until its timeout.
      expect(world.sessionIds).toContain(sessionId);
    });
  });
});
