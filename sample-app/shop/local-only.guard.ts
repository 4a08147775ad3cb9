import type { IncomingMessage } from 'node:http';
import { BlockList, isIPv6 } from 'node:net';
import { type CanActivate, type ExecutionContext, ForbiddenException } from '@nestjs/common';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Headers that proxies add. A proxy on this machine would make all of its clients look local. */
const PROXY_HEADERS = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'];

/**
 * All clients may read; only pages of this server, opened on this machine, may change anything. Checking the
 * peer's address is not enough: any web page that is open on this machine can send requests from it, and
 * with a host name that resolves to this machine (DNS rebinding) it can read the answers too.
 */
export class LocalOnlyGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<IncomingMessage>();
    if (request.method === 'GET' || request.method === 'HEAD' || isLocal(request)) return true;
    throw new ForbiddenException('only a page of this server, opened on this machine, may do that');
  }
}

export function isLocal({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>): boolean {
  const { host, origin } = headers;
  return (
    isLoopback(socket.remoteAddress) &&
    isLoopbackName(host) &&
    (origin === undefined || origin === `http://${host}`) &&
    PROXY_HEADERS.every((name) => headers[name] === undefined)
  );
}

function isLoopbackName(host: string | undefined): boolean {
  const url = `http://${host}`;
  if (!host || !URL.canParse(url)) return false;
  const name = new URL(url).hostname.replace(/^\[|\]$/g, '');
  return name === 'localhost' || isLoopback(name);
}

function isLoopback(address = ''): boolean {
  return loopback.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}
