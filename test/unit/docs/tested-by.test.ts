import { describe, expect, it } from 'vitest';
import { countWords, testProblems, unknownCommands } from '../../../scripts/docs/tested-by.mjs';

/** Returns the problems of a guide whose only section has this text. */
function problemsWith(section: string): string[] {
  const text = `# Locks\n\n<!-- No claim -->\n\n## Keys\n\n${section}\n`;
  return testProblems({ name: 'docs/guides/a.md', text });
}

describe('the check of the tests that a section names', () => {
  it.each([
    '<!-- No claim -->',
    'A claim.\n\n<!-- Tested by test/unit/docs/tested-by.test.ts -->',
    '<!-- Tested by test/unit/docs/tested-by.test.ts,\n  npm run chaos -- --minutes 1, npm test -->',
    '<!-- Tested by npx nestjs-zookeeper doctor -->',
    '```sh\n## a comment of the shell\n```\n\n<!-- No claim -->',
  ])('accepts: %s', (section) => expect(problemsWith(section)).toEqual([]));

  it.each(['A claim.', '<!-- Tested by -->', '<!-- No claim -->\n\nA claim.'])(
    'reports a section without a test: %s',
    (section) =>
      expect(problemsWith(section)).toEqual([
        'docs/guides/a.md names no test at the end of the section "Keys"',
      ]),
  );

  it.each([
    'test/unit/none.test.ts',
    'lib/index.ts',
    'test/unit/docs',
    'npm run none',
    'npx nestjs-zookeeper none',
    'somebody',
  ])('reports the test %s', (entry) =>
    expect(problemsWith(`<!-- Tested by npm test, ${entry} -->`)).toEqual([
      `docs/guides/a.md names the test ${entry}, which does not exist`,
    ]),
  );

  it('reports the text before the first section', () =>
    expect(testProblems({ name: 'docs/faq.md', text: '# FAQ\n\nText.\n' })).toEqual([
      'docs/faq.md names no test at the end of the section "FAQ"',
    ]));

  it.each([
    'introduction.md',
    'reliability.md',
    'operations/a.md',
    'migrating/a.md',
    'internals/a.md',
  ])('checks docs/%s', (page) =>
    expect(testProblems({ name: `docs/${page}`, text: '# A\n' })).toHaveLength(1),
  );

  it('leaves out the reference', () =>
    expect(testProblems({ name: 'docs/reference/options.md', text: '# Options\n' })).toEqual([]));
});

it('the check of commands reports those that do not exist', () =>
  expect(
    unknownCommands({
      name: 'a.md',
      text: 'npm run chaos, npm run none, npx nestjs-zookeeper locks, npx nestjs-zookeeper lock',
    }),
  ).toEqual([
    'a.md: there is no command npm run none',
    'a.md: there is no command npx nestjs-zookeeper lock',
  ]));

it('words are counted without code, tables, comments and the reference', () =>
  expect(
    countWords([
      {
        name: 'docs/a.md',
        text: '---\nlayout: home\n---\n\n# Two words\n\n```ts\ncode();\n```\n\n| a | b |\n\n- three <!-- no -->\n',
      },
      { name: 'docs/reference/b.md', text: 'none' },
      { name: 'README.md', text: 'none' },
    ]),
  ).toBe(3));
