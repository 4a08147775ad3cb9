import type { LoggerService } from '@nestjs/common';
import { Observable, ReplaySubject } from 'rxjs';
import {
  captureContext,
  ConnectionError,
  CoordinationError,
  detached,
  FUNCTION,
  isError,
  isRecord,
  rule,
  type Rules,
  sleep,
  textOf,
  UNCHECKED,
  whenSettled,
  type ZkClient,
} from '../client/index.js';
import { ZkCache } from './recipes/cache.js';
import type { CachedNode, CacheEvent } from './recipes/internals/cache-copy.js';
import { parseJson } from './recipes/internals/queue-items.js';
import { synchronous } from './recipes/internals/synchronous.js';

/**
 * The value of a znode, which is kept current. `T` is the type of the value.
 *
 * @publicApi
 */
export interface LiveValue<T> {
  /** The znode. */
  readonly path: string;
  /** The last valid value. */
  readonly value: T;
  /** Emits the value at once, then each later valid value. Completes when the application shuts down. */
  readonly changes: Observable<T>;
  /** Since when the value may be out of date, by `performance.now()`; undefined while it is current. See {@link ZkCache.staleSince}. */
  readonly staleSince: number | undefined;
  /** Ends the updates. The last value stays readable. The shutdown calls it. Idempotent. */
  close(): Promise<void>;
}

/**
 * A schema of Zod, Valibot, ArkType or another library that implements Standard Schema (https://standardschema.dev).
 * Its validation must be synchronous.
 *
 * @publicApi
 */
export interface StandardSchema<T> {
  /** The properties of Standard Schema, version 1. */
  readonly '~standard': {
    readonly version: 1;
    /** Validates a value. */
    readonly validate: (value: unknown) => StandardResult<T> | Promise<StandardResult<T>>;
  };
}

/**
 * The result of a {@link StandardSchema}.
 *
 * @publicApi
 */
export interface StandardResult<T> {
  /** The validated value. */
  readonly value?: T;
  /** What is wrong with a value that is not valid. */
  readonly issues?:
    | readonly {
        readonly message: string;
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
      }[]
    | undefined;
}

/**
 * The options of a {@link LiveValue}.
 *
 * @typeParam T the type of the value
 * @typeParam Parsed what `parse` returns
 * @publicApi
 */
export interface LiveValueOptions<T, Parsed = T> {
  /**
   * Converts the data of the znode to the value, or to the input of `schema`. `Number` and `String` are such functions. Data
   * for which it throws is not valid. A promise and `NaN` are not valid either. Default: `JSON.parse`.
   */
  parse?: ((data: Buffer) => Parsed) | undefined;
  /** Validates the parsed data, and may convert it. Default: none. */
  schema?: StandardSchema<T> | undefined;
  /**
   * The value while the znode does not exist, and while there is no connection at the start. It does not replace data that
   * are not valid. Default: a missing znode is an error at the start.
   */
  default?: T | undefined;
}

export const LIVE_VALUE_RULES: Rules<LiveValueOptions<unknown>> = {
  parse: FUNCTION,
  schema: rule(
    "a Standard Schema, which has '~standard'.validate",
    (value: StandardSchema<unknown> | null) => typeof value?.['~standard']?.validate === 'function',
  ),
  default: UNCHECKED,
};

/**
 * A live value has no first value.
 * Cause: its znode does not exist, and it has no `default`; or the data of the znode is not valid.
 * Remedy: create or correct the znode that the message names, or set `default`.
 *
 * @publicApi
 */
export class LiveValueError extends CoordinationError {
  readonly code = 'LIVE_VALUE';
}

/** The options of a live value whose schema converts what `parse` returns. */
export type ValidatedOptions<T> = LiveValueOptions<T, unknown> & {
  readonly schema: StandardSchema<T>;
};

/** Milliseconds that the start of an application without a connection waits before it uses `default`. */
const MAX_CONNECT_WAIT = 1_000;

/** A live value of one znode. */
export class ZkLiveValue<T> implements LiveValue<T> {
  readonly cache: ZkCache;
  private readonly emitted = new ReplaySubject<T>(1);
  private current!: T;

  private constructor(
    client: ZkClient,
    readonly path: string,
    private readonly options: LiveValueOptions<T>,
    private readonly logger: LoggerService,
  ) {
    this.cache = new ZkCache(client, path, {
      singleNode: true,
      onError: (error) => logger.error(`the value of znode ${path} was not read: ${String(error)}`),
    });
    const complete = () => this.emitted.complete();
    this.cache.signal.addEventListener('abort', complete, { once: true });
  }

  /**
   * Resolves when the first value is known.
   *
   * @throws LiveValueError; what `ZkCache.initialized` throws. Without a connection the default is used
   */
  static async open<T>(
    client: ZkClient,
    path: string,
    options: LiveValueOptions<T>,
    logger: LoggerService,
  ): Promise<ZkLiveValue<T>> {
    const value = new ZkLiveValue(client, path, options, logger);
    try {
      await value.start();
      return value;
    } catch (error) {
      await value.close();
      throw error;
    }
  }

  get value(): T {
    return this.current;
  }

  /** Calls each subscriber in its own asynchronous context, not in that of the code that opened the value. */
  get changes(): Observable<T> {
    return new Observable((subscriber) => {
      const context = captureContext('ZooKeeperValue');
      return this.emitted.subscribe({
        next: (value) => context.runInAsyncScope(() => subscriber.next(value)),
        complete: () => subscriber.complete(),
      });
    });
  }

  get staleSince(): number | undefined {
    return this.cache.staleSince;
  }

  close(): Promise<void> {
    return this.cache.close();
  }

  private async start(): Promise<void> {
    const { cache, path } = this;
    const fallback = this.options.default;
    try {
      await this.read();
    } catch (error) {
      if (!(error instanceof ConnectionError) || fallback === undefined) throw error;
    }
    const node = cache.get();
    if (node) {
      const because =
        fallback === undefined ? '' : ', because the default is only for a missing znode';
      this.emit(this.decode(node, `; correct the data${because}`));
    } else if (fallback !== undefined) this.emit(fallback);
    else {
      const message = `znode ${path} of a live value does not exist: create it, or set default`;
      throw new LiveValueError(message, { key: path });
    }
    detached(() => cache.onChange((event) => this.onChange(event)));
  }

  private async read(): Promise<void> {
    const { cache } = this;
    const { client } = cache;
    try {
      // Nest creates providers before ZkModule connects.
      if (client.state === 'CONNECTING') await this.connect(client);
    } finally {
      cache.start();
    }
    const isConnected = client.state === 'CONNECTED' || client.state === 'RECONNECTED';
    if (isConnected || this.options.default === undefined) await cache.initialized();
  }

  private async connect(client: ZkClient): Promise<void> {
    const connected = client.connect();
    if (this.options.default === undefined) return connected;
    let failure: Error | undefined;
    connected.catch((error: Error) => (failure = error));
    await sleep(MAX_CONNECT_WAIT, { until: whenSettled(connected), ref: true });
    if (failure) throw failure;
  }

  private onChange(event: CacheEvent): void {
    if (event.type === 'deleted') {
      const fallback = this.options.default;
      if (fallback !== undefined) this.emit(fallback);
      else this.logger.error(`znode ${this.path} was deleted; its last value stays in use`);
      return;
    }
    try {
      this.emit(this.decode(event.node));
    } catch (error) {
      this.logger.error(`${(error as Error).message}; the last valid value stays in use`);
    }
  }

  private emit(value: T): void {
    this.current = value;
    this.emitted.next(value);
  }

  /**
   * @param remedy ends the message of the error
   * @throws LiveValueError
   */
  private decode({ data, stat }: CachedNode, remedy = ''): T {
    const { parse = parseJson, schema } = this.options;
    try {
      const parsed = synchronous(parse(data), 'its parse function');
      const value = schema ? validate(schema, parsed) : (parsed as T);
      if (Number.isNaN(value)) throw new Error('it is not a number (NaN)');
      return value;
    } catch (cause) {
      const why = isError(cause) ? cause.message : textOf(cause);
      throw new LiveValueError(
        `the data of znode ${this.path}, version ${stat.version}, is not valid: ${why}${remedy}`,
        { key: this.path, cause },
      );
    }
  }
}

function validate<T>({ '~standard': standard }: StandardSchema<T>, input: unknown): T {
  const result: unknown = synchronous(standard.validate(input), 'its schema');
  if (!isRecord(result)) throw new Error('its schema returned no result of a Standard Schema');
  const { issues, value } = result as StandardResult<T>;
  if (!issues) return value as T;
  const messages = issues.map(({ message, path = [] }) => {
    const keys = path.map((part) => String(typeof part === 'object' ? part.key : part));
    return keys.length > 0 ? `${keys.join('.')}: ${message}` : message;
  });
  throw new Error(messages.join('; ') || 'its schema refused it without an issue');
}
