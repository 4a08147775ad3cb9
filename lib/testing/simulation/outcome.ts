import { inspect } from 'node:util';

/** Returns the message of a thrown value, which need not be an `Error`. */
export function messageOf(error: unknown): string {
  try {
    const message: unknown = error instanceof Error ? error.message : error;
    if (typeof message === 'string') return message;
    return inspect(message, { depth: 2, breakLength: Infinity });
  } catch {
    return `a thrown value that cannot be shown (${typeof error})`;
  }
}

/**
 * Returns the return value of a scenario as text for the digest. Only plain data is included, because other objects,
 * such as clients, may have properties that differ between runs.
 */
export function plainData(value: unknown): string {
  try {
    return (
      JSON.stringify(value, (_, part: unknown) => {
        if (typeof part === 'bigint') return `${part}n`;
        return isPlain(part) ? part : undefined;
      }) ?? typeof value
    );
  } catch {
    return 'cyclic';
  }
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}
