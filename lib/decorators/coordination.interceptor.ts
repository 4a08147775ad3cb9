import {
  type CallHandler,
  type ExecutionContext,
  HttpException,
  Inject,
  Injectable,
  type NestInterceptor,
} from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { catchError, from, mergeMap, type Observable, throwError } from 'rxjs';
import {
  type CoordinationError,
  foreignText,
  quotedKey,
  WaitCancelledError,
} from '../client/errors.js';
import { getErrorMappingToken, loggerOf } from '../services/tokens.js';
import { onClientDisconnect } from './client-disconnect.js';
import { subscribedIn, usingAsync } from './guarded-stream.js';
import { HandlerCall } from './handler-call.js';
import { type Requirement, requirementsOf } from './requirement.js';
import { type ErrorMapping, transportException } from './zk-exception.filter.js';

/** The status that proxies such as nginx log for a client that disconnected. */
const CLIENT_CLOSED_REQUEST = 499;

/** The metadata by which Nest's `@EventPattern` marks a handler. */
const HANDLER_TYPE = 'microservices:handler_type';
const EVENT = 2;

/** Holds the guards of a handler until its answer is complete. One interceptor serves all decorators of a handler. */
@Injectable()
export class CoordinationInterceptor implements NestInterceptor {
  constructor(@Inject(ModuleRef) private readonly moduleRef: ModuleRef) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const requirements = requirementsOf(context.getHandler());
    const call = new HandlerCall(requirements, context, ({ serviceToken }) =>
      this.moduleRef.get<unknown>(serviceToken, { strict: false }),
    );
    let stopListening: (() => void) | undefined;
    return usingAsync({
      open: async () => {
        stopListening = onClientDisconnect(context, () => call.cancelWaits());
        const answer = await call.open();
        return answer ?? subscribedIn(call.runWithin, () => next.handle());
      },
      outlives: () => call.abandon(),
      onDropped: (error) => logDropped(error, requirements[0]!),
      close: (unsubscribed) => {
        stopListening?.();
        return call.close(unsubscribed);
      },
    }).pipe(
      catchError((error: unknown) => {
        const requirement = call.sourceOf(error);
        if (!requirement) return throwError(() => error);
        if (isEvent(context)) logLostEvent(error as CoordinationError, requirement, call);
        return from(this.exceptionOf(error as CoordinationError, requirement, context)).pipe(
          mergeMap((exception) => throwError(() => exception)),
        );
      }),
    );
  }

  private async exceptionOf(
    error: CoordinationError,
    { connection }: Requirement,
    context: ExecutionContext,
  ): Promise<unknown> {
    const mapped = this.mappingOf(connection)?.(error, context);
    if (mapped !== undefined) return mapped;
    // No client receives the answer. Nest does not log an HttpException as an error, also for an event.
    if (error instanceof WaitCancelledError) {
      return new HttpException('The client disconnected', CLIENT_CLOSED_REQUEST, { cause: error });
    }
    if (isEvent(context)) {
      const { code, message } = error;
      return new HttpException({ status: 'error', code, message }, 500, { cause: error });
    }
    return transportException(error, context);
  }

  /** Returns undefined in a unit test without a ZkModule. */
  private mappingOf(connection: string): ErrorMapping | undefined {
    try {
      return this.moduleRef.get<ErrorMapping>(getErrorMappingToken(connection), { strict: false });
    } catch {
      return undefined;
    }
  }
}

function isEvent(context: ExecutionContext): boolean {
  return (
    context.getType() === 'rpc' && Reflect.getMetadata(HANDLER_TYPE, context.getHandler()) === EVENT
  );
}

/** The sender of an event gets no answer, so only the log can tell that the event was not handled. */
function logLostEvent(error: CoordinationError, requirement: Requirement, call: HandlerCall): void {
  const { code, message, key = call.keyOf(requirement) } = error;
  const forKey = key === undefined ? '' : ` for the key ${quotedKey(String(key))}`;
  loggerOf(requirement.connection).error(
    `event handler ${requirement.label} failed with ${code}${forKey}, and the event may be lost: ${message}`,
  );
}

function logDropped(error: unknown, { connection, label }: Requirement): void {
  // The method has not run.
  if (error instanceof WaitCancelledError) return;
  loggerOf(connection).error(
    `${label} failed after its caller had stopped waiting for the answer: ${foreignText(error)}`,
  );
}
