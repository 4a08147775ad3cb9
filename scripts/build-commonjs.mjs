// node scripts/build-commonjs.mjs
// Makes dist/cjs, the CommonJS form of the ES modules in dist.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const DIST = fileURLToPath(new URL('../dist', import.meta.url));
const OUTPUT = join(DIST, 'cjs');
/** The value of `import.meta.url`, which CommonJS does not have. */
const FILE_URL = `require('node:url').pathToFileURL(__filename).href`;
const OPTIONS = {
  module: ts.ModuleKind.CommonJS,
  target: ts.ScriptTarget.ES2023,
  esModuleInterop: true,
  removeComments: true,
};

rmSync(OUTPUT, { recursive: true, force: true });
const files = readdirSync(DIST, { encoding: 'utf8', recursive: true }).filter((file) =>
  /\.[jt]s$/.test(file),
);
// The command line is always run as an ES module.
for (const file of files.filter((file) => !file.startsWith('cli/'))) {
  const source = readFileSync(join(DIST, file), 'utf8');
  write(file, file.endsWith('.d.ts') ? source : commonJs(source));
}
write('package.json', '{ "type": "commonjs" }\n');

function commonJs(source) {
  const { outputText } = ts.transpileModule(source, { compilerOptions: OPTIONS });
  return outputText.replaceAll('import.meta.url', FILE_URL);
}

function write(file, content) {
  const path = join(OUTPUT, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
