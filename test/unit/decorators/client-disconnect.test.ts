import { EventEmitter } from 'node:events';
import type { ExecutionContext } from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { describe, expect, it } from 'vitest';
import { onClientDisconnect } from '../../../lib/decorators/client-disconnect.js';

type Context = (connection: EventEmitter) => ExecutionContext;

function contextOf(type: string, ...args: unknown[]): ExecutionContext {
  const host = new ExecutionContextHost(args);
  host.setType(type);
  return host;
}

const CONTEXTS: [string, Context][] = [
  ['Express', (response) => contextOf('http', {}, response)],
  ['Fastify', (raw) => contextOf('http', {}, { raw })],
  ['GraphQL on Express', (res) => contextOf('graphql', {}, {}, { req: { res } }, {})],
  ['GraphQL with a response in its context', (res) => contextOf('graphql', {}, {}, { res }, {})],
  ['Apollo on Fastify', (socket) => contextOf('graphql', {}, {}, { req: { raw: { socket } } }, {})],
  ['Mercurius', (raw) => contextOf('graphql', {}, {}, { req: {}, reply: { raw } }, {})],
];

describe.each(CONTEXTS)('a client that disconnects from %s', (_, context) => {
  it('triggers the listener', () => {
    const connection = new EventEmitter();
    let left = 0;
    onClientDisconnect(context(connection), () => void left++);
    expect(left).toBe(0);
    connection.emit('close');
    expect(left).toBe(1);
  });

  it('does not trigger a listener that was removed', () => {
    const connection = new EventEmitter();
    let left = 0;
    onClientDisconnect(context(connection), () => void left++)();
    connection.emit('close');
    expect(left).toBe(0);
  });

  it('has one listener on its response, however many handlers it calls', () => {
    const connection = new EventEmitter();
    let left = 0;
    for (let i = 0; i < 12; i++) onClientDisconnect(context(connection), () => void left++);
    expect(connection.listenerCount('close')).toBe(1);
    connection.emit('close');
    expect(left).toBe(12);
  });

  it('triggers the listener at once if it disconnected before', () => {
    const connection = Object.assign(new EventEmitter(), { destroyed: true });
    let left = 0;
    onClientDisconnect(context(connection), () => void left++);
    expect(left).toBe(1);
  });
});
