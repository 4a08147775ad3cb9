import { type ArgumentsHost, HttpException, Logger } from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { RpcException } from '@nestjs/microservices';
import { WsException } from '@nestjs/websockets';
import {
  BadKeyError,
  BadOptionError,
  ConnectionError,
  type CoordinationError,
  LeaseLostError,
  LockBusyError,
  LockTimeoutError,
  NotAuthorizedError,
  NotLeaderError,
  SessionExpiredError,
  ShuttingDownError,
  ZkExceptionFilter,
} from 'nestjs-zookeeper';
import { QueueFullError, WaitTimeoutError } from 'nestjs-zookeeper/coordination';
import { firstValueFrom, type Observable } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { transportException } from '../../../lib/decorators/zk-exception.filter.js';

function hostOf(type: string, ...args: unknown[]): ArgumentsHost {
  const host = new ExecutionContextHost(args);
  host.setType(type);
  return host;
}

/** The parts of Express's response that a filter uses. */
function responseOf() {
  const response = {
    headers: {} as Record<string, string>,
    statusCode: 0,
    body: undefined as unknown,
    headersSent: false,
    ended: false,
    header: (name: string, value: string) => void (response.headers[name] = value),
    status: (code: number) => ((response.statusCode = code), response),
    send: (body: unknown) => void (response.body = body),
    end: () => void (response.ended = true),
  };
  return response;
}

describe('over HTTP', () => {
  it.each<[number, CoordinationError]>([
    [400, new BadKeyError('key', '', 'a non-empty string')],
    [409, new LockBusyError('busy')],
    [503, new LockTimeoutError('timeout')],
    [503, new WaitTimeoutError('timeout')],
    [503, new QueueFullError('full')],
    [503, new ConnectionError('no answer from 10.0.0.7:2181')],
    [503, new SessionExpiredError('expired')],
    [503, new ShuttingDownError('closing')],
    [503, new NotLeaderError('not me')],
    [500, new LeaseLostError('lost')],
  ])('status %i is the answer to %s', (status, error) => {
    const response = responseOf();
    new ZkExceptionFilter().catch(error, hostOf('http', {}, response));
    expect(response.statusCode).toBe(status);
    expect(response.body).toEqual({
      statusCode: status,
      code: error.code,
      message: expect.any(String) as string,
    });
    const retryAfter: Record<string, string> = {
      ...{ TIMEOUT: '1', WAIT_TIMEOUT: '1', QUEUE_FULL: '1' },
      ...{ CONNECTION: '5', SESSION_EXPIRED: '5', SHUTTING_DOWN: '1', NOT_LEADER: '1' },
    };
    expect(response.headers['Retry-After']).toBe(retryAfter[error.code]);
  });

  it.each([new LockBusyError('busy'), new LockTimeoutError('timeout'), new LeaseLostError('lost')])(
    'the answer to %s fits a semaphore as well as a lock',
    (error) => {
      const { message } = transportException(error, hostOf('http', {}, responseOf())) as Error;
      expect(message).not.toMatch(/lock/i);
    },
  );

  it('the answer contains no address and no path', () => {
    const error = new ConnectionError('no answer from 10.0.0.7:2181');
    const exception = transportException(error, hostOf('http', {}, responseOf())) as HttpException;
    expect(JSON.stringify(exception.getResponse())).not.toContain('10.0.0.7');
    expect(exception.cause).toBe(error);
  });

  it('an error without a status, or one after the answer has begun, is logged', () => {
    const log = vi.spyOn(Logger.prototype, 'error').mockReturnValue();
    const filter = new ZkExceptionFilter();
    const response = responseOf();
    const error = new BadOptionError('wait', -1, 'positive');
    filter.catch(error, hostOf('http', {}, response));
    expect(response.statusCode).toBe(500);
    expect(response.body).toEqual({ statusCode: 500, message: 'Internal server error' });
    expect(log).toHaveBeenCalledWith(error);
    const begun = responseOf();
    begun.headersSent = true;
    const lost = new LeaseLostError('lost');
    filter.catch(lost, hostOf('http', {}, begun));
    // It is only ended.
    expect(begun).toMatchObject({ body: undefined, ended: true });
    expect(log).toHaveBeenCalledWith(expect.objectContaining({ cause: lost }));
    log.mockRestore();
  });

  it('an application can replace the answer with a filter of its own', () => {
    class Locked extends ZkExceptionFilter {
      protected override toException(): unknown {
        return new HttpException('locked', 423);
      }
    }
    const response = responseOf();
    new Locked().catch(new LockBusyError('busy'), hostOf('http', {}, response));
    expect(response.statusCode).toBe(423);
    expect(response.body).toEqual({ statusCode: 423, message: 'locked' });
  });
});

describe('over another transport', () => {
  const error = new LockTimeoutError('timeout');
  const payload = {
    status: 'error',
    code: 'TIMEOUT',
    message: expect.any(String) as string,
    retryAfter: 1,
  };

  it('RPC gets an RpcException, or a failing stream from the filter', async () => {
    const exception = await transportException(error, hostOf('rpc', {}, {}));
    expect(exception).toBeInstanceOf(RpcException);
    expect((exception as RpcException).getError()).toEqual(payload);
    const answer = new ZkExceptionFilter().catch(error, hostOf('rpc', {}, {}));
    await expect(firstValueFrom(answer as Observable<unknown>)).rejects.toEqual(payload);
  });

  it('WebSocket gets a WsException, or an exception event from the filter', async () => {
    const exception = await transportException(error, hostOf('ws', {}, {}));
    expect(exception).toBeInstanceOf(WsException);
    expect((exception as WsException).getError()).toEqual(payload);
    const emitted = new Promise((resolve) => {
      const client = { emit: (...args: unknown[]) => resolve(args) };
      new ZkExceptionFilter().catch(error, hostOf('ws', client, {}, 'pattern'));
    });
    expect(await emitted).toEqual(['exception', payload]);
  });

  it('GraphQL gets no message that may name a znode; it is logged', () => {
    const log = vi.spyOn(Logger.prototype, 'error').mockReturnValue();
    const denied = new NotAuthorizedError('no permission for /shop/locks/gold');
    const exception = new ZkExceptionFilter().catch(denied, hostOf('graphql', {}, {}, {}, {}));
    expect(exception).toMatchObject({
      message: 'Internal server error',
      extensions: { code: 'NOT_AUTHORIZED', status: 500 },
      cause: denied,
    });
    expect(log).toHaveBeenCalledWith(denied);
    log.mockRestore();
  });

  it('GraphQL gets an error with extensions, which it reports itself', () => {
    const exception = new ZkExceptionFilter().catch(error, hostOf('graphql', {}, {}, {}, {}));
    expect((exception as HttpException).getStatus()).toBe(503);
    expect(exception).toMatchObject({
      message: payload.message,
      extensions: { code: 'TIMEOUT', status: 503, retryAfter: 1 },
    });
  });
});
