import { describe, expect, it } from 'vitest';
import { blocksOf } from '../../../scripts/docs/blocks.mjs';

describe('blocksOf', () => {
  it('takes the first word after the backticks as the language', () => {
    const text = '```ts twoslash {1}\none();\n```\n\nText.\n\n```sh\ntwo\n```\n\n```\nthree\n```\n';
    expect(blocksOf({ name: 'page.md', text })).toMatchObject([
      { language: 'ts', line: 2, code: 'one();\n' },
      { language: 'sh', line: 8, code: 'two\n' },
      { language: '', line: 12, code: 'three\n' },
    ]);
  });
});
