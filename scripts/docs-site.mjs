// npm run docs:site [-- --serve]
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { searchProblems } from './docs/search.mjs';
import { problemsOf } from './docs/site.mjs';
import { flagOption, readOptions } from './options.mjs';
import { root } from './packed.mjs';

const VITEPRESS = join(root, 'node_modules/vitepress/bin/vitepress.js');
const VITE = join(root, 'node_modules/vite/bin/vite.js');
const DEMO = join(root, 'sample-app/page/demo/vite.config.ts');
const SITE = join(root, 'dist-docs');

const { serve } = readOptions({
  name: 'docs:site',
  about: `Builds the documentation site from docs/ into dist-docs/, with the live page without a server in dist-docs/demo/ and
the reference of classes and functions in dist-docs/api/. Checks
each link, and that 48 searches find the right page. No page may load anything from another origin. SITE_URL is the address
where the site is published, for the sitemap and llms.txt. \`npx vitepress dev docs\` shows the pages while you write them.

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
const api = spawnSync(
  process.execPath,
  [join(root, 'node_modules/typedoc/bin/typedoc'), '--out', join(SITE, 'api')],
  { cwd: root, encoding: 'utf8' },
);
process.stdout.write(api.stdout + api.stderr);
const demo = spawnSync(
  process.execPath,
  [VITE, 'build', '--config', DEMO, '--outDir', join(SITE, 'demo'), '--emptyOutDir'],
  { cwd: root, encoding: 'utf8' },
);
process.stdout.write(demo.stdout + demo.stderr);
const warnings = output.split('\n').filter((line) => /warn|\(!\)|dead link/i.test(line));
const failures =
  status === 0 && demo.status === 0 && api.status === 0
    ? [...warnings, ...problemsOf(SITE), ...(await searchProblems(SITE))]
    : ['the build'];
for (const failure of failures) console.error(`FAILED: ${failure}`);
process.exitCode = failures.length === 0 ? 0 : 1;

if (serve && failures.length === 0) {
  execFileSync(process.execPath, [VITEPRESS, 'preview', 'docs'], { cwd: root, stdio: 'inherit' });
}
