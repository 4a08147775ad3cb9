import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const folder = new URL('../../.github/workflows/', import.meta.url);
const read = (file: string) => readFileSync(new URL(file, folder), 'utf8');

describe('the workflows of the repository', () => {
  it('pin the actions of others by commit', () => {
    const actions = readdirSync(folder).flatMap((file) =>
      [...read(file).matchAll(/uses: (.*)/g)].map(([, action]) => action!),
    );
    expect(actions).toContainEqual(expect.stringMatching(/^actions\/checkout@/));
    for (const action of actions) expect(action).toMatch(/^\.\/|@[0-9a-f]{40} # v[\d.]+$/);
  });

  it('run no code of dependencies in the job that may publish, which only stages the package', () => {
    const publishing = read('release.yml')
      .split(/^ {2}(?=\w+:$)/m)
      .filter((job) => job.includes('id-token: write'));
    expect(publishing).toHaveLength(1);
    expect(publishing[0]).not.toMatch(/npm ci|npm run|checkout|npm publish/);
    expect(publishing[0]).toContain('npm stage publish');
  });
});
