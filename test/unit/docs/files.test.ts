import { describe, expect, it } from 'vitest';
import { missingFiles } from '../../../scripts/docs/files.mjs';

describe('the check of the files that a page names', () => {
  it.each([
    'Run `npx vitest run test/unit/docs/files.test.ts`.',
    'See `files.test.ts` and [this](../../test/unit/docs/files.test.ts), `unit/docs/files.test.ts`.',
    'The folder test/unit/docs has it.',
    '`kernel/queue.ts` in `lib/`',
    'your own `src/main.ts`, `shop.spec.ts` and https://example.org/test/none.test.js',
  ])('accepts: %s', (text) => expect(missingFiles({ name: 'a.md', text })).toEqual([]));

  it.each([
    ['npx vitest run test/unit/none.test.ts', 'test/unit/none.test.ts'],
    ['`none.test.ts` checks it', 'none.test.ts'],
    ['`unit/none.test.ts` checks it', 'unit/none.test.ts'],
    ['the folder `scripts/none`', 'scripts/none'],
    ['`kernel/none.ts` keeps it', 'kernel/none.ts'],
  ])('reports: %s', (text, path) =>
    expect(missingFiles({ name: 'a.md', text })).toEqual([
      `a.md names ${path}, which does not exist`,
    ]),
  );
});
