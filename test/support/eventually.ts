import { vi } from 'vitest';

/** Resolves when the assertion holds. The limit is long because the machine may be busy. */
export function eventually<T>(assertion: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(assertion, { timeout: 60_000, interval: 10 });
}
