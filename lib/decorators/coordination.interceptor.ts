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
import { type CoordinationError, WaitCancelledError } from '../client/errors.js';
import { getErrorMappingToken } from '../zk.tokens.js';
import { onCallerLeft } from './client-disconnect.js';
import { type ErrorMapping, transportException } from './zk-exception.filter.js';
import { HandlerCall } from './handler-call.js';
import { bracket, subscribedIn } from './guarded-stream.js';
import { specsOf } from './requirement.js';
import type { MethodSpec } from './requirement.js';

/** The status that proxies log for it. */
const CLIENT_CLOSED_REQUEST = 499;

/** Holds what a handler needs until its answer is complete. One for all the decorators of a handler. */
@Injectable()
export class CoordinationInterceptor implements NestInterceptor {
  constructor(@Inject(ModuleRef) private readonly moduleRef: ModuleRef) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const call = new HandlerCall(specsOf(context.getHandler()), context, ({ serviceToken }) =>
      this.moduleRef.get<unknown>(serviceToken, { strict: false }),
    );
    let stopListening: (() => void) | undefined;
    return bracket({
      open: async () => {
        stopListening = onCallerLeft(context, () => call.abandon());
        const answer = await call.open();
        return answer ?? subscribedIn(call.within, () => next.handle());
      },
      close: () => {
        stopListening?.();
        return call.close();
      },
    }).pipe(
      catchError((error: unknown) => {
        const spec = call.sourceOf(error);
        if (!spec) return throwError(() => error);
        return from(this.exceptionOf(error as CoordinationError, spec, context)).pipe(
          mergeMap((exception) => throwError(() => exception)),
        );
      }),
    );
  }

  private async exceptionOf(
    error: CoordinationError,
    { connection }: MethodSpec,
    context: ExecutionContext,
  ): Promise<unknown> {
    const token = getErrorMappingToken(connection);
    const mapError = this.moduleRef.get<ErrorMapping>(token, { strict: false });
    const mapped = mapError(error, context);
    if (mapped !== undefined) return mapped;
    // Nobody is left to read it. As an HttpException it stays out of the error log.
    if (error instanceof WaitCancelledError) {
      return new HttpException('The caller left', CLIENT_CLOSED_REQUEST, { cause: error });
    }
    return transportException(error, context);
  }
}
