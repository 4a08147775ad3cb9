import 'reflect-metadata';
import { checkKnownOptions } from '../services/service-options.js';
import { checkKey } from '../services/keys.js';
import { connectionName, getLeaderServiceToken } from '../zk.tokens.js';
import { isMethod } from './decorate-method.js';
import { MisuseError } from './requirement.js';
import { injectService } from './injected-service.js';

const LISTENERS = 'nestjs-zookeeper:elections';
const OPTIONS = ['connection'] satisfies (keyof ElectionListenerOptions)[];

/**
 * What `@OnElected` and `@OnResigned` take beside the election.
 *
 * @publicApi
 */
export interface ElectionListenerOptions {
  /** The `name` of the ZkModule connection to take part on. */
  connection?: string;
}

/** A method that is to be called when this instance begins or ceases to lead. */
export interface ElectionListener {
  readonly decorator: '@OnElected' | '@OnResigned';
  readonly election: string;
  readonly connection: string;
}

/**
 * Calls the method with the {@link Term} each time that this instance is elected, which takes part from
 * the application's start on. Inside, `currentTerm()` gives the term too. What it throws is logged; the
 * leadership stays. Methods of request-scoped and transient providers are refused at start-up.
 *
 * @publicApi
 */
export function OnElected(election: string, options?: ElectionListenerOptions): MethodDecorator {
  return listener('@OnElected', election, options);
}

/**
 * Calls the method with the {@link Term} that is over each time that this instance does not lead any
 * longer: it lost the leadership, or gave it up, as it does at a shutdown. In all else as
 * {@link OnElected}.
 *
 * @publicApi
 */
export function OnResigned(election: string, options?: ElectionListenerOptions): MethodDecorator {
  return listener('@OnResigned', election, options);
}

export function listenersOf(method: object): readonly ElectionListener[] {
  return (Reflect.getMetadata(LISTENERS, method) as ElectionListener[] | undefined) ?? [];
}

function listener(
  decorator: ElectionListener['decorator'],
  election: string,
  options: ElectionListenerOptions = {},
): MethodDecorator {
  return (target, method, descriptor) => {
    const isStatic = typeof target === 'function';
    const owner = isStatic ? target.name : target.constructor.name;
    const label = `${decorator} on ${owner}.${String(method)}`;
    const fn: unknown = descriptor?.value;
    if (isStatic || !isMethod(fn)) {
      throw new MisuseError(`${label} does not stand on a method of instances`);
    }
    checkKey(election, `election of ${label}`);
    checkKnownOptions(`options of ${label}`, options, OPTIONS);
    const connection = connectionName(options.connection, `connection of ${label}`);
    // Nobody would call it without: the application must not start then.
    injectService(target, {
      decorator,
      service: 'LeaderService',
      serviceToken: getLeaderServiceToken(connection),
      connection,
    });
    const entry: ElectionListener = { decorator, election, connection };
    Reflect.defineMetadata(LISTENERS, [...listenersOf(fn), entry], fn);
  };
}
