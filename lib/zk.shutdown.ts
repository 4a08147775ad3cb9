import type { Logger } from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';

/** Milliseconds. An application may call enableShutdownHooks() after it has started. */
const GRACE = 10_000;

/** The root module that Test.createTestingModule() creates. */
const TEST_MODULE = 'RootTestModule';

let warned = false;

/**
 * Warns, once in a process, if nobody listens for SIGTERM ten seconds after the start of an application: neither Nest,
 * because enableShutdownHooks() was not called, nor a handler of the application. Never warns in tests. Returns a
 * function that cancels the check.
 */
export function checkShutdownHooks(modules: ModulesContainer, logger: Logger): () => void {
  const check = () => {
    if (warned || process.listenerCount('SIGTERM') > 0) return;
    warned = true;
    logger.warn(
      'nobody listens for SIGTERM, so a process that is stopped keeps its locks until its session times out: call app.enableShutdownHooks() in main.ts',
    );
  };
  const isTest =
    process.env.NODE_ENV === 'test' ||
    [...modules.values()].some(({ metatype }) => metatype?.name === TEST_MODULE);
  const timer = isTest ? undefined : setTimeout(check, GRACE).unref();
  return () => clearTimeout(timer);
}
