import { EventEmitter } from 'node:events';
import type { ExecutionContext } from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { expect, it } from 'vitest';
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

it('a pipelined request, whose response has no socket yet, learns of the end of its connection', () => {
  const socket = new EventEmitter();
  const response = () => Object.assign(new EventEmitter(), { req: { socket } });
  const left: number[] = [];
  for (let request = 0; request < 12; request++) {
    onClientDisconnect(contextOf('http', {}, response()), () => left.push(request));
  }
  const both = response();
  onClientDisconnect(contextOf('http', {}, both), () => left.push(12));
  expect(socket.listenerCount('close')).toBe(1);
  both.emit('close');
  expect(left).toEqual([12]);
  socket.emit('close');
  expect(left).toEqual([12, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

it.each(CONTEXTS)('a client that disconnects from %s triggers the listeners', (_, context) => {
  const connection = new EventEmitter();
  let left = 0;
  for (let i = 0; i < 12; i++) onClientDisconnect(context(connection), () => void left++);
  onClientDisconnect(context(connection), () => void left++)();
  // A response has one listener, however many handlers it calls.
  expect([left, connection.listenerCount('close')]).toEqual([0, 1]);
  connection.emit('close');
  // The listener that was removed is not called.
  expect(left).toBe(12);

  const closed = Object.assign(new EventEmitter(), { destroyed: true });
  onClientDisconnect(context(closed), () => void left++);
  expect(left).toBe(13);
});
