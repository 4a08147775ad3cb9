import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const page = readFileSync(join(ROOT, 'docs/reference/troubleshooting.md'), 'utf8');
const source = readdirSync(join(ROOT, 'lib'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => readFileSync(join(ROOT, 'lib', file), 'utf8'))
  .join('\n')
  .replaceAll("\\'", "'");

/** The messages that the page quotes: in headings that begin with code, and in the first column of tables. */
const messages = [...page.matchAll(/^(?:### |\| )(`.*)$/gm)].flatMap(([, line]) => {
  const quoting = line!.split(' | ')[0]!;
  return [...quoting.matchAll(/`([^`]+)`/g)].map(([, message]) => message!);
});

const MIN_LENGTH = 6;

/** Whether the source has the text, in one piece or in two: a message may be composed of two strings. */
function isInSource(text: string): boolean {
  if (source.includes(text)) return true;
  return [...text.matchAll(/ /g)].some(({ index }) =>
    [text.slice(0, index), text.slice(index + 1)].every(
      (half) => half.length >= MIN_LENGTH && source.includes(half),
    ),
  );
}

describe('docs/reference/troubleshooting.md', () => {
  it('quotes many messages', () => expect(messages.length).toBeGreaterThan(70));

  it.each(messages)('quotes a message that the source has: %s', (message) => {
    // The option, its expected value and its value are strings of their own.
    const parts = message.split(/…| must be |, but is /).map((part) => part.trim());
    for (const part of parts) {
      if (part.length >= MIN_LENGTH) expect(isInSource(part), part).toBe(true);
    }
  });

  it('names each class of an error that a stack trace shows', () => {
    const thrown = [...source.matchAll(/^export class (\w+Error) extends \w+Error\b/gm)];
    expect(thrown.length).toBeGreaterThan(15);
    for (const [, name] of thrown) expect(page).toContain(`\`${name}\``);
  });

  it('names each code of an error and of a process warning', () => {
    const errors = [...source.matchAll(/readonly code(?:: .*)? = '([A-Z_]+)'/g)];
    const warnings = [...source.matchAll(/code: '(ZK_[A-Z_]+)'/g)];
    expect(errors.length + warnings.length).toBeGreaterThan(20);
    for (const [, code] of [...errors, ...warnings]) expect(page).toContain(`\`${code}\``);
  });
});
