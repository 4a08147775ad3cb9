import 'reflect-metadata';
import { checkOptions, type Rules, UNCHECKED } from '../client/validation.js';
import type { Term } from '../recipes/index.js';
import { checkKey } from '../services/keys.js';
import { connectionName, getLeaderServiceToken } from '../services/tokens.js';
import { checkArguments, checkLegacyMethod, isMethod } from './decorate-method.js';
import type { MethodDecoratorFor } from './decorator-types.js';
import { injectService } from './injected-service.js';
import { MisuseError } from './requirement.js';

const LISTENERS = 'nestjs-zookeeper:election-listeners';
const RULES: Rules<ElectionListenerOptions> = { connection: UNCHECKED };
const PARAMETERS = ['election', '{ connection }'];

/**
 * Options of `@OnElected` and `@OnResigned`.
 *
 * @publicApi
 */
export interface ElectionListenerOptions {
  /** The `name` of the ZkModule connection for the election. Default: the connection without a name. */
  connection?: string | undefined;
}

/** A method to call when this instance is elected, or when its term ends. */
export interface ElectionListener {
  readonly decorator: '@OnElected' | '@OnResigned';
  readonly election: string;
  readonly connection: string;
}

/**
 * Calls the method with the {@link Term} each time that this instance is elected. The instance joins the election when
 * the application starts. Inside the method, `currentTerm()` returns the term too. An error that the method throws is
 * logged and does not end the leadership. A method of a request-scoped or transient provider is an error at startup.
 *
 * @publicApi
 */
export function OnElected(
  election: string,
  options?: ElectionListenerOptions,
): MethodDecoratorFor<(term: Term) => unknown> {
  checkArguments('@OnElected', arguments, PARAMETERS);
  return listener('@OnElected', election, options);
}

/**
 * Calls the method with the ended {@link Term} each time that this instance loses the leadership or gives it
 * up, also at a shutdown. Otherwise as {@link OnElected}.
 *
 * @publicApi
 */
export function OnResigned(
  election: string,
  options?: ElectionListenerOptions,
): MethodDecoratorFor<(term: Term) => unknown> {
  checkArguments('@OnResigned', arguments, PARAMETERS);
  return listener('@OnResigned', election, options);
}

export function listenersOf(method: object): readonly ElectionListener[] {
  return (Reflect.getMetadata(LISTENERS, method) as ElectionListener[] | undefined) ?? [];
}

function listener(
  decorator: ElectionListener['decorator'],
  election: string,
  options: ElectionListenerOptions = {},
): MethodDecoratorFor<(term: Term) => unknown> {
  const decorate: MethodDecorator = (target, method, descriptor) => {
    checkLegacyMethod(decorator, target, method);
    const isStatic = typeof target === 'function';
    const owner = isStatic ? target.name : target.constructor.name;
    const label = `${decorator} on ${owner}.${String(method)}`;
    const fn: unknown = descriptor?.value;
    if (isStatic || !isMethod(fn)) {
      throw new MisuseError(`${label} is not on an instance method`);
    }
    checkKey(election, `election of ${label}`);
    checkOptions(options, RULES, `options of ${label}`);
    const connection = connectionName(options.connection, `connection of ${label}`);
    // The listener does not use the service; the injection makes the start fail without a ZkModule.
    injectService(target, {
      decorator,
      service: 'LeaderService',
      serviceToken: getLeaderServiceToken(connection),
      connection,
    });
    const entry: ElectionListener = { decorator, election, connection };
    Reflect.defineMetadata(LISTENERS, [...listenersOf(fn), entry], fn);
  };
  return decorate as MethodDecoratorFor<(term: Term) => unknown>;
}
