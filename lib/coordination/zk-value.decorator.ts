import { isDeepStrictEqual } from 'node:util';
import {
  Inject,
  type InjectionToken,
  type OnApplicationBootstrap,
  type Provider,
  Scope,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { BadOptionError, checkOptions, UNCHECKED } from '../client/index.js';
import { checkArguments } from '../decorators/decorate-method.js';
import { MisuseError } from '../decorators/requirement.js';
import { connectionName, DEFAULT_CONNECTION } from '../services/tokens.js';
import { type CoordinationService, getCoordinationServiceToken } from './coordination.service.js';
import {
  LIVE_VALUE_RULES,
  type LiveValue,
  type LiveValueOptions,
  type ValidatedOptions,
} from './live-value.js';

/**
 * The options of {@link ZkValue}.
 *
 * @typeParam T the type of the value
 * @typeParam Parsed what `parse` returns
 * @publicApi
 */
export interface ZkValueOptions<T, Parsed = T> extends LiveValueOptions<T, Parsed> {
  /** The `name` of the ZkModule connection; default: the connection without a name. */
  connection?: string | undefined;
}

/**
 * The decorator that {@link ZkValue} returns. On a public property it compares `T`, if the options determine it, with the
 * declared type.
 *
 * @publicApi
 */
export interface ZkValueDecorator<T> {
  (target: object, property: string | symbol | undefined, index: number): void;
  <Target extends object, Key extends string | symbol>(
    target: Target,
    property: Key & Checked<T, Target[Key & keyof Target]>,
  ): void;
}

/** Unknown if a value of the type `T` may be one of the type `Declared`. */
type Checked<T, Declared> = unknown extends T
  ? unknown
  : LiveValue<T> extends Declared
    ? unknown
    : // A private property is `never` here.
      [Declared] extends [LiveValue<T>]
      ? unknown
      : { 'The znode has another value': LiveValue<T> };

/** One decorator. */
interface Use {
  readonly owner: Function;
  /** Class and property, or class and index of the parameter, for errors. */
  readonly place: string;
  readonly options: LiveValueOptions<unknown>;
}

/** A value that decorators ask for. */
interface Declaration {
  readonly connection: string;
  readonly path: string;
  readonly uses: Use[];
}

/** The values that the decorators of this process ask for. An application opens only those that it injects. */
const declarations = new Map<InjectionToken, Declaration>();

/**
 * Returns the token of a value, for `inject` of a factory and `overrideProvider` of a test.
 *
 * @publicApi
 */
export function getZkValueToken(path: string, connection?: string): InjectionToken {
  const name = connectionName(connection, 'connection');
  return name === DEFAULT_CONNECTION ? `ZkValue(${path})` : `ZkValue(${path}, ${name})`;
}

/**
 * Injects the {@link LiveValue} of a znode: on a parameter of a constructor or on a property. The application starts
 * when the first value is known, and does not start if the znode is missing and has no `default`, or if its data is not
 * valid. Later data that is not valid is logged as an error, and the last valid value stays in use.
 *
 * All decorators of an application with the same path share one value, and must have the same options.
 *
 * @param path absolute, or relative to the namespace of the connection
 * @throws BadOptionError
 * @publicApi
 */
export function ZkValue<T>(
  path: string,
  options: ZkValueOptions<T, unknown> & ValidatedOptions<T>,
): ZkValueDecorator<T>;
export function ZkValue<T = unknown>(
  path: string,
  options?: ZkValueOptions<T>,
): ZkValueDecorator<T>;
export function ZkValue(
  path: string,
  options: ZkValueOptions<unknown> = {},
): PropertyDecorator & ParameterDecorator {
  if (typeof path !== 'string' || path === '') {
    throw new BadOptionError('path', path, 'the path of a znode');
  }
  checkArguments('@ZkValue', arguments, ['path', '{ … }']);
  checkOptions(options, { ...LIVE_VALUE_RULES, connection: UNCHECKED });
  const { connection, ...rest } = options;
  const token = getZkValueToken(path, connection);
  return (target: object, property: string | symbol | undefined, index?: number) => {
    const owner = typeof target === 'function' ? target : target.constructor;
    let declaration = declarations.get(token);
    if (!declaration) {
      const name = connectionName(connection, 'connection');
      declaration = { connection: name, path, uses: [] };
      declarations.set(token, declaration);
    }
    const place =
      property === undefined
        ? `parameter ${index} of the constructor of ${owner.name}`
        : `${owner.name}.${String(property)}`;
    declaration.uses.push({ owner, place, options: rest });
    (Inject(token) as (...decorated: unknown[]) => void)(target, property, index);
  };
}

/** Opens the values that an application injects. */
class LiveValues implements OnApplicationBootstrap {
  private readonly values = new Map<Declaration, Promise<LiveValue<unknown>>>();
  private started = false;

  constructor(
    private readonly service: CoordinationService,
    private readonly modules: ModulesContainer,
  ) {}

  onApplicationBootstrap(): void {
    this.started = true;
  }

  /** @throws MisuseError if the options of the decorators differ; what `CoordinationService.value` throws */
  get(declaration: Declaration): Promise<LiveValue<unknown>> {
    let value = this.values.get(declaration);
    if (!value) this.values.set(declaration, (value = this.open(declaration)));
    return value;
  }

  private async open({ path, uses }: Declaration): Promise<LiveValue<unknown>> {
    try {
      const classes = this.classes();
      // The other classes are of other applications, or a hot reload has replaced them.
      const own = uses.filter(({ owner }) => classes.has(owner));
      const [first, ...others] = own.length > 0 ? own : uses.slice(-1);
      const { options, place } = first!;
      const different = others.find((other) => !isDeepStrictEqual(other.options, options));
      if (different) {
        throw new MisuseError(
          `@ZkValue(${JSON.stringify(path)}) on ${place} and on ${different.place} have different options: pass the same object to both`,
        );
      }
      return await this.service.value(path, options);
    } catch (error) {
      // Nest may end a failed start without a shutdown. An open client would keep the process alive.
      if (!this.started) await this.service.client.close();
      throw error;
    }
  }

  /** Returns the classes of the application, and the classes that they extend. */
  private classes(): Set<unknown> {
    const classes = new Set<unknown>();
    const hosts = [...this.modules.values()].flatMap(({ controllers, injectables, providers }) => [
      ...controllers.values(),
      ...injectables.values(),
      ...providers.values(),
    ]);
    for (const { metatype } of hosts) {
      let each: unknown = metatype;
      for (; each; each = Object.getPrototypeOf(each)) classes.add(each);
    }
    return classes;
  }
}

/** The values of a connection that all classes loaded so far ask for. */
function declaredFor(connection: string | undefined): [InjectionToken, Declaration][] {
  const name = connectionName(connection, 'connection');
  return [...declarations].filter(([, declaration]) => declaration.connection === name);
}

export function valueTokens(connection: string | undefined): InjectionToken[] {
  return declaredFor(connection).map(([token]) => token);
}

export function valueProviders(connection: string | undefined): Provider[] {
  return [
    {
      provide: LiveValues,
      inject: [getCoordinationServiceToken(connection), ModulesContainer],
      useFactory: (service: CoordinationService, modules: ModulesContainer) =>
        new LiveValues(service, modules),
    },
    ...declaredFor(connection).map(([token, declaration]) => ({
      provide: token,
      inject: [LiveValues],
      useFactory: (values: LiveValues) => values.get(declaration),
      // Nest calls the factory of a transient provider only for a class that injects it.
      scope: Scope.TRANSIENT,
    })),
  ];
}
