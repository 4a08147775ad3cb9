import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ErrorReporter } from '../../../lib/kernel/error-reporter.js';

const warnings: Error[] = [];
beforeEach(() => {
  vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
    warnings.push(warning as Error);
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  warnings.length = 0;
});

it('reports each different error once until it is reset, and at most 1,000 of them', () => {
  const errors: Error[] = [];
  const reporter = new ErrorReporter((error) => errors.push(error));
  for (const message of ['a', 'b', 'a', 'b']) reporter.reportOnce(new Error(message));
  expect(errors.map(({ message }) => message)).toEqual(['a', 'b']);
  reporter.reset();
  reporter.reportOnce(new Error('a'));
  reporter.report(new Error('a'));
  expect(errors).toHaveLength(4);
  reporter.reset();
  errors.length = 0;
  const messages = Array.from({ length: 1500 }, (_, index) => `error ${index}`);
  for (const message of [...messages, ...messages]) reporter.reportOnce(new Error(message));
  expect(errors).toHaveLength(1001);
  expect(errors.at(-1)!.message).toBe(
    'more than 1000 different errors: further ones are not reported until the next success; the first of them: error 1000',
  );
  reporter.reset();
  reporter.reportOnce(new Error('error 0'));
  expect(errors).toHaveLength(1002);
});

it('passes an Error and the other arguments to the listener', () => {
  const onError = vi.fn<(error: Error, partition?: number) => void>();
  new ErrorReporter(onError).report('text', 7);
  expect(onError.mock.calls).toEqual([[new Error('text'), 7]]);
});

it('emits a warning without a listener, and for what a listener throws or rejects with', async () => {
  const [report, thrown, rejected] = ['report', 'thrown', 'rejected'].map((m) => new Error(m));
  new ErrorReporter(undefined).report(report);
  const throwing = new ErrorReporter(() => {
    throw thrown;
  });
  throwing.report(new Error('x'));
  new ErrorReporter(() => Promise.reject(rejected!)).report(new Error('x'));
  await vi.waitFor(() => expect(warnings).toEqual([report, thrown, rejected]));
});

it('reports and warns about values that cannot be converted to a string', () => {
  const errors: Error[] = [];
  const thrown: unknown = Object.create(null);
  new ErrorReporter((error) => errors.push(error)).report(thrown);
  expect(errors).toEqual([new Error('[object Object]', { cause: thrown })]);
  new ErrorReporter(() => {
    throw thrown;
  }).report(new Error('first'));
  expect(warnings).toEqual(['[object Object]']);
});
