import { type Logger, Module } from '@nestjs/common';
import { ModulesContainer, NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { silent } from '../support/nest-apps.js';

@Module({})
class AppModule {}

let stops: (() => unknown)[] = [];
beforeEach(() => {
  vi.useFakeTimers();
  vi.stubEnv('NODE_ENV', 'production');
});
afterEach(async () => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  vi.resetModules();
  for (const stop of stops.splice(0)) await stop();
});

/** Starts an application on which one connection checks the shutdown hooks. Returns what it logs. */
async function application({ listeners = 0 } = {}) {
  const { checkShutdownHooks } = await import('../../lib/zk.shutdown.js');
  // The test runner may listen as well.
  const others = process.listenerCount('SIGTERM');
  const count = process.listenerCount.bind(process);
  vi.spyOn(process, 'listenerCount').mockImplementation(
    (event) => count(event) - others + listeners,
  );
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  stops.push(() => app.close());
  const lines: string[] = [];
  const logger = { warn: (line: string) => void lines.push(line) } as unknown as Logger;
  const cancel = checkShutdownHooks(app.get(ModulesContainer), logger);
  return { app, lines, logger, cancel, checkShutdownHooks };
}

describe('ten seconds after its start, an application', () => {
  it('logs a warning once if nobody listens for SIGTERM, however many connections it has', async () => {
    const { app, lines, logger, checkShutdownHooks } = await application();
    checkShutdownHooks(app.get(ModulesContainer), logger);
    vi.advanceTimersByTime(9_999);
    expect(lines).toEqual([]);
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual([expect.stringMatching(/SIGTERM.*app\.enableShutdownHooks\(\)/)]);
  });

  it('logs none if it called enableShutdownHooks() after its start', async () => {
    const { app, lines } = await application();
    vi.advanceTimersByTime(5_000);
    app.enableShutdownHooks();
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual([]);
  });

  it('logs none if it has a handler of its own', async () => {
    const { lines } = await application({ listeners: 1 });
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual([]);
  });

  it('logs none if it has closed', async () => {
    const { lines, cancel } = await application();
    cancel();
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual([]);
  });
});

describe('a test logs no warning', () => {
  it('if it has a testing module', async () => {
    const { lines, logger, cancel, checkShutdownHooks } = await application();
    cancel();
    const module = await Test.createTestingModule({ imports: [AppModule] })
      .setLogger(silent)
      .compile();
    checkShutdownHooks(module.get(ModulesContainer), logger);
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual([]);
  });

  it('if NODE_ENV is test, as under Jest and Vitest', async () => {
    vi.stubEnv('NODE_ENV', 'test');
    const { lines } = await application();
    vi.advanceTimersByTime(60_000);
    expect(lines).toEqual([]);
  });
});
