import { expect, test } from 'vitest';
import { WatchRegistry } from '../../../lib/client/watch-registry.js';

test('a read after a persistent watch that the server refused sets its own watch', () => {
  const registry = new WatchRegistry(() => {});
  const request = registry.requestPersistent('/a', false);
  const answered = registry.addRequest('data', '/a');
  expect(registry.covers('data', '/a')).toBe(true);
  // The persistent watch fails while the read is pending.
  request.end();
  expect(registry.covers('data', '/a')).toBe(false);
  answered();
});

test('a recursive watch fires the watch on the children that it replaces on the server', async () => {
  const registry = new WatchRegistry(() => {});
  const children = registry.add('children', '/a', false);
  const request = registry.requestPersistent('/a', true);
  const watch = request.add(() => {});
  request.end();
  await expect(children.fired).resolves.toBe('session');
  watch.remove();
  expect(registry.size).toBe(0);
});

test('a read that relied on a persistent watch is repeated if that one failed, although another is requested', async () => {
  const registry = new WatchRegistry(() => {});
  const failing = registry.requestPersistent('/a', false);
  const answered = registry.addRequest('data', '/a');
  const later = registry.requestPersistent('/a', false);
  failing.end();
  // An event between the read and the later persistent watch would be missed.
  await expect(registry.add('data', '/a', true).fired).resolves.toBe('session');
  answered();
  const watch = later.add(() => {});
  later.end();
  watch.remove();
  expect(registry.size).toBe(0);
});

test.each([true, false])(
  'a watch that is removed while a request sets it again is removed from the server after the request, unless it is used (%s)',
  (isUsed) => {
    const unused: string[] = [];
    const registry = new WatchRegistry((kind, path) => void unused.push(`${kind} ${path}`));
    const first = registry.add('data', '/a', false);
    const answered = registry.addRequest('data', '/a');
    first.remove();
    expect(unused).toEqual([]);
    const second = isUsed ? registry.add('data', '/a', false) : undefined;
    answered();
    expect(unused).toEqual(isUsed ? [] : ['data /a']);
    second?.remove();
    expect(unused).toEqual(['data /a']);
  },
);

test('a recursive watch gets the events of all znodes below it, and of no others', () => {
  const registry = new WatchRegistry(() => {});
  const seen: string[] = [];
  for (const path of ['/', '/a']) {
    const request = registry.requestPersistent(path, true);
    request.add((event) => seen.push(`${path}: ${event.path}`));
    request.end();
  }
  for (const path of ['/', '/a', '/a/b/c', '/ab']) registry.fire('changed', path);
  expect(seen.toSorted()).toEqual(['/: /', '/: /a', '/: /a/b/c', '/: /ab', '/a: /a', '/a: /a/b/c']);
});

test('an event with a long path without a slash does not block the process', () => {
  const registry = new WatchRegistry(() => {});
  const request = registry.requestPersistent('/b', true);
  request.add(() => {});
  request.end();
  const before = process.cpuUsage();
  registry.fire('deleted', 'a'.repeat(200_000));
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(1000);
});
