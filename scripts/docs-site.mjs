// npm run docs:site [-- --serve]
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { problemsOf } from './docs/site.mjs';
import { flagOption, readOptions } from './options.mjs';
import { root } from './packed.mjs';

const VITEPRESS = join(root, 'node_modules/vitepress/bin/vitepress.js');

const { serve } = readOptions({
  name: 'docs:site',
  about: `Builds the documentation site from docs/ into dist-docs/, and checks each link of it. No page may load anything from
another origin. \`npx vitepress dev docs\` shows the pages while you write them.

The exit code is 0 if all is well, 1 for a warning of the build, a broken link or a request to another origin, and 2 for
a wrong option.`,
  options: {
    serve: flagOption('serve the built site on http://localhost:4173 until you press Ctrl+C'),
  },
});

const { status, stdout, stderr } = spawnSync(process.execPath, [VITEPRESS, 'build', 'docs'], {
  cwd: root,
  encoding: 'utf8',
});
const output = stdout + stderr;
process.stdout.write(output);
const warnings = output.split('\n').filter((line) => /warn|\(!\)|dead link/i.test(line));
const failures =
  status === 0 ? [...warnings, ...problemsOf(join(root, 'dist-docs'))] : ['the build'];
for (const failure of failures) console.error(`FAILED: ${failure}`);
process.exitCode = failures.length === 0 ? 0 : 1;

if (serve && failures.length === 0) {
  execFileSync(process.execPath, [VITEPRESS, 'preview', 'docs'], { cwd: root, stdio: 'inherit' });
}
