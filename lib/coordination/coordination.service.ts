import type { InjectionToken } from '@nestjs/common';
import type { ZkClient } from '../client/index.js';
import { checkKey, encodeKey } from '../services/keys.js';
import { connectionName, DEFAULT_CONNECTION } from '../services/tokens.js';

/** Something that a service has opened and closes at the shutdown. */
interface Closeable {
  close(): Promise<void>;
}

/**
 * Returns the token of a connection's {@link CoordinationService}: the class itself for the default connection.
 *
 * @publicApi
 */
export function getCoordinationServiceToken(name?: string): InjectionToken<CoordinationService> {
  const connection = connectionName(name);
  return connection === DEFAULT_CONNECTION
    ? CoordinationService
    : `CoordinationService(${connection})`;
}

/**
 * The coordination recipes by name, across all processes on the same ensemble and namespace.
 *
 * @publicApi
 */
export class CoordinationService {
  private readonly opened = new Set<Closeable>();

  constructor(readonly client: ZkClient) {}

  /** Closes what the methods of this service have opened. The client stays open. Idempotent. */
  async closeAll(): Promise<void> {
    const opened = [...this.opened];
    this.opened.clear();
    await Promise.all(opened.map((each) => each.close()));
  }

  /** Returns `<namespace>/<kind>/<name>`, with the name encoded as the keys of locks are. */
  protected pathOf(kind: string, name: string): string {
    checkKey(name, 'name');
    return `${this.client.namespace}/${kind}/${encodeKey(name)}`;
  }

  /** Returns `recipe`, which the shutdown of the application closes. */
  protected closing<T extends Closeable>(recipe: T): T {
    this.opened.add(recipe);
    return recipe;
  }
}
