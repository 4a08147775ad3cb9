import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  type DataPoint,
  type Histogram,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { ZookeeperInstrumentation } from 'nestjs-zookeeper/opentelemetry';
import { BadOptionError, LeaderLatch, Mutex } from 'nestjs-zookeeper/recipes';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { expire, useClients } from '../../support/clients.js';
import { failureOf } from '../../support/recipe-nodes.js';
import { useServer } from '../../support/servers.js';
import { afterEach, it } from '../../support/virtual-time.js';

const server = useServer();
const connect = useClients(server);
const open: ZookeeperInstrumentation[] = [];

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
afterEach(() => open.splice(0).forEach((instrumentation) => instrumentation.disable()));
afterAll(() => context.disable());

/** Starts the real SDK, which keeps all spans and metrics in memory. */
function instrument() {
  const spans = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(spans)],
  });
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const instrumentation = new ZookeeperInstrumentation({ tracerProvider, meterProvider });
  open.push(instrumentation);

  const points = async <T = number>(name: string): Promise<DataPoint<T>[]> => {
    exporter.reset();
    await reader.forceFlush();
    const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics);
    const metric = metrics
      .flatMap((scope) => scope.metrics)
      .find((m) => m.descriptor.name === name);
    return (metric?.dataPoints ?? []) as DataPoint<T>[];
  };
  return {
    instrumentation,
    tracer: tracerProvider.getTracer('test'),
    spans: () => spans.getFinishedSpans(),
    points,
    /** Indexes the data points by the values of their attributes. */
    values: async (name: string) =>
      Object.fromEntries(
        (await points(name)).map(({ attributes, value }) => [
          Object.values(attributes).join(' '),
          value,
        ]),
      ),
  };
}

describe('the spans', () => {
  it("are children of the caller's span, and name the lock", async () => {
    const { tracer, spans } = instrument();
    const path = server.path('caller');
    const mutex = new Mutex(await connect(), path, { key: 'gold' });
    const parent = tracer.startSpan('purchase');
    const token = await context.with(trace.setSpan(context.active(), parent), () =>
      mutex.withLock((lease) => lease.fencingToken),
    );
    parent.end();
    const [wait, hold] = spans();
    const about = {
      'zookeeper.lock.key': 'gold',
      'zookeeper.lock.path': path,
      'zookeeper.lock.recipe': 'mutex',
      'zookeeper.lock.grant.kind': 'cold',
    };
    expect(wait).toMatchObject({ name: 'zookeeper.lock.wait', status: { code: 0 } });
    expect(wait!.attributes).toEqual({ ...about, 'zookeeper.lock.wait.outcome': 'granted' });
    expect(hold).toMatchObject({ name: 'zookeeper.lock.hold', status: { code: 0 } });
    expect(hold!.attributes).toEqual({
      ...about,
      'zookeeper.lock.fencing_token': String(token),
      'zookeeper.lock.hold.end': 'released',
    });
    for (const span of [wait!, hold!]) {
      expect(span.parentSpanContext?.spanId).toBe(parent.spanContext().spanId);
      expect(span.instrumentationScope.name).toBe('nestjs-zookeeper');
    }
  });

  it('belong to the waiter, although another caller hands the lock over', async () => {
    const { tracer, spans } = instrument();
    const mutex = new Mutex(await connect(), server.path('callers'));
    const [first, second] = [tracer.startSpan('first'), tracer.startSpan('second')];
    const within = (span: typeof first) => trace.setSpan(context.active(), span);
    const held = await context.with(within(first), () => mutex.acquire());
    const waiting = context.with(within(second), () => mutex.acquire());
    await context.with(within(first), () => held.release());
    await (await waiting).release();
    const handedOver = spans().filter(
      ({ attributes }) => attributes['zookeeper.lock.grant.kind'] === 'handed-over',
    );
    expect(handedOver).toHaveLength(2);
    for (const span of handedOver) {
      expect(span.parentSpanContext?.spanId).toBe(second.spanContext().spanId);
    }
  });

  it('have the status ERROR if the wait timed out or the lock was lost', async () => {
    const { spans } = instrument();
    const [client, other] = await Promise.all([connect(), connect()]);
    const path = server.path('failing');
    const held = await new Mutex(client, path).acquire();
    await failureOf(new Mutex(other, path).acquire({ wait: 20 }));
    await new Mutex(other, path).tryAcquire();
    await expire(client, server);
    await expect.poll(() => held.held).toBe(false);
    await held.release();
    await expect.poll(() => spans()).toHaveLength(4);
    const ends = spans().map(({ attributes, status, events }) => [
      attributes['zookeeper.lock.wait.outcome'] ?? attributes['zookeeper.lock.hold.end'],
      attributes['error.type'],
      status.code,
      events.length,
    ]);
    expect(ends).toEqual([
      ['granted', undefined, SpanStatusCode.UNSET, 0],
      ['timed-out', 'TIMEOUT', SpanStatusCode.ERROR, 1],
      ['busy', undefined, SpanStatusCode.UNSET, 0],
      ['lost', 'LEASE_LOST', SpanStatusCode.ERROR, 1],
    ]);
  });

  it('do not exist for a re-entry', async () => {
    const { spans } = instrument();
    const mutex = new Mutex(await connect(), server.path('again'));
    await mutex.withLock(() => mutex.withLock(() => {}));
    expect(spans().map(({ name }) => name)).toEqual(['zookeeper.lock.wait', 'zookeeper.lock.hold']);
  });
});

describe('the metrics', () => {
  it('count grants by kind, timeouts and losses, and measure waits and holds in seconds', async () => {
    const { values, points } = instrument();
    const [client, other] = await Promise.all([connect(), connect()]);
    const path = server.path('counted');
    const mutex = new Mutex(client, path);
    await Promise.all([
      mutex.withLock(() => mutex.withLock(() => {})),
      mutex.withLock(() => {}),
      mutex.withLock(() => {}, { linger: 5_000 }),
    ]);
    const held = await mutex.acquire();
    await failureOf(new Mutex(other, path).acquire({ wait: 30 }));
    await expire(client, server);
    await expect.poll(() => held.held).toBe(false);
    await held.release();

    expect(await values('zookeeper.lock.grants')).toEqual({
      'mutex cold': 1,
      'mutex handed-over': 2,
      'mutex lingering': 1,
      'mutex re-entered': 1,
    });
    expect(await values('zookeeper.lock.timeouts')).toEqual({ mutex: 1 });
    await expect.poll(() => values('zookeeper.lock.losses')).toEqual({ mutex: 1 });

    const histogram = async (name: string, value: string) => {
      const found = await points<Histogram>(name);
      return found.find(({ attributes }) => Object.values(attributes).includes(value))!.value;
    };
    // A re-entry does not wait.
    expect(await histogram('zookeeper.lock.wait.duration', 'granted')).toMatchObject({ count: 4 });
    const late = await histogram('zookeeper.lock.wait.duration', 'timed-out');
    expect(late.count).toBe(1);
    // A timer of Node may end a millisecond early, also in virtual time.
    expect(late.sum).toBeGreaterThanOrEqual(0.029);
    expect(late.sum).toBeLessThan(0.05);
    expect(late.buckets.boundaries[0]).toBe(0.0001);
    expect(await histogram('zookeeper.lock.hold.duration', 'released')).toMatchObject({ count: 3 });
    expect(await histogram('zookeeper.lock.hold.duration', 'lost')).toMatchObject({ count: 1 });
  });

  it('count the present waiters', async () => {
    const { values } = instrument();
    const mutex = new Mutex(await connect(), server.path('waiters'));
    const waiters = () => values('zookeeper.lock.waiters');
    expect(await waiters()).toEqual({});
    const held = await mutex.acquire();
    expect(await waiters()).toEqual({ mutex: 0 });
    const cancelling = new AbortController();
    const waiting = [mutex.acquire(), mutex.acquire({ signal: cancelling.signal })];
    expect(await waiters()).toEqual({ mutex: 2 });
    cancelling.abort();
    await failureOf(waiting[1]!);
    expect(await waiters()).toEqual({ mutex: 1 });
    await held.release();
    await (await waiting[0]!).release();
    expect(await waiters()).toEqual({ mutex: 0 });
  });

  it('count each delete of a node that a server refused', async () => {
    const { values } = instrument();
    const client = await connect();
    const path = server.path('no-delete');
    await client.ensureContainers(path);
    await client.setAcl(path, [{ scheme: 'world', id: 'anyone', permissions: 'crwa' }]);
    const mutex = new Mutex(client, path);
    await (await mutex.acquire()).release();
    await failureOf(mutex.acquire({ wait: 50 }));
    await expect.poll(() => values('zookeeper.delete.refusals')).toEqual({ '': 2 });
  });

  it('count connections by state, and changes of leadership', async () => {
    const { values } = instrument();
    const [client] = await Promise.all([connect(), connect()]);
    const connections = () => values('zookeeper.connection.count');
    expect(await connections()).toEqual({ CONNECTED: 2 });
    const latch = new LeaderLatch(client, server.path('election'), { key: 'job' });
    latch.start();
    await latch.await();
    await latch.close();
    expect(await values('zookeeper.leader.changes')).toEqual({
      'job elected': 1,
      'job resigned': 1,
    });
    await client.close();
    expect(await connections()).toEqual({ CONNECTED: 1 });
  });
});

describe('the instrumentation', () => {
  it('records nothing after disable(), and only new events after enable()', async () => {
    const { instrumentation, spans, values } = instrument();
    const mutex = new Mutex(await connect(), server.path('disabled'));
    const held = await mutex.acquire();
    const waiting = mutex.acquire();
    instrumentation.disable();
    await held.release();
    const second = await waiting;
    expect(spans()).toHaveLength(1);
    instrumentation.enable();
    instrumentation.enable();
    await second.release();
    await mutex.withLock(() => {});
    expect(spans()).toHaveLength(3);
    expect(await values('zookeeper.lock.waiters')).toEqual({ mutex: 0 });
  });

  it('continues with providers that are set later', async () => {
    const early = new ZookeeperInstrumentation({ enabled: false });
    const late = instrument();
    late.instrumentation.disable();
    const { tracerProvider, meterProvider } = late.instrumentation.getConfig();
    early.setTracerProvider(tracerProvider!);
    early.setMeterProvider(meterProvider!);
    const mutex = new Mutex(await connect(), server.path('later'));
    await mutex.withLock(() => {});
    expect(late.spans()).toEqual([]);
    early.enable();
    open.push(early);
    await mutex.withLock(() => {});
    expect(late.spans()).toHaveLength(2);
    expect(await late.values('zookeeper.lock.grants')).toEqual({ 'mutex cold': 1 });
  });

  it('rejects an invalid configuration', () => {
    const refused = (config: object) => () => new ZookeeperInstrumentation(config);
    expect(refused({ tracerProvider: 5 })).toThrow(BadOptionError);
    expect(refused({ meterProvider: {} })).toThrow(/meterProvider/);
    expect(refused({ enabled: 'no' })).toThrow(/enabled.*"no"/);
    expect(refused({ tracer: {} })).toThrow(/tracer/);
  });
});
