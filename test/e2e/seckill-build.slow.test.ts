import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CLI = join(ROOT, 'node_modules/@nestjs/cli/bin/nest.js');

// In a copy, because other test files run the repository's own build.
const copy = mkdtempSync(join(tmpdir(), 'nest-build-'));

const run = (...args: string[]) =>
  execFileSync(process.execPath, args, { cwd: copy, encoding: 'utf8' });

beforeAll(() => {
  const files = ['package.json', 'nest-cli.json', 'tsconfig.json', 'tsconfig.sample.json'];
  for (const file of [...files, 'sample-app']) {
    cpSync(join(ROOT, file), join(copy, file), { recursive: true });
  }
  for (const directory of ['node_modules', 'dist']) {
    symlinkSync(join(ROOT, directory), join(copy, directory));
  }
});

afterAll(() => rmSync(copy, { recursive: true }));

it('nest build with nest-cli.json alone produces a working sample, without output', () => {
  expect(run(CLI, 'build')).toBe('');
  expect(run('dist-sample/seckill.js', '--help')).toMatch(/^npm run seckill/);
}, 400_000);
