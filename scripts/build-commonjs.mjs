// node scripts/build-commonjs.mjs
// Makes dist/cjs, the CommonJS form of the ES modules in dist. Removes the declarations that no entry point needs, and the
// comments of those that no entry point exports.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DIST = join(ROOT, 'dist');
const OUTPUT = join(DIST, 'cjs');
/** The value of `import.meta.url`, which CommonJS does not have. */
const FILE_URL = `require('node:url').pathToFileURL(__filename).href`;
const OPTIONS = {
  module: ts.ModuleKind.CommonJS,
  target: ts.ScriptTarget.ES2023,
  esModuleInterop: true,
};

rmSync(OUTPUT, { recursive: true, force: true });
const files = readdirSync(DIST, { encoding: 'utf8', recursive: true });
const declarations = publishedDeclarations();
for (const file of files.filter((file) => file.endsWith('.d.ts'))) {
  rmSync(join(DIST, file));
}
for (const [file, text] of declarations) {
  const content = text.includes('@publicApi') ? text : withoutComments(text);
  write(file, content, DIST);
  write(file, content);
}
// The command line is always run as an ES module.
for (const file of files.filter((file) => file.endsWith('.js') && !file.startsWith('cli/'))) {
  write(file, commonJs(read(file)));
}
write('package.json', '{ "type": "commonjs" }\n');

/** Returns the texts of the declaration files of the entry points and of all that they import. */
function publishedDeclarations() {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const found = new Set(
    Object.values(exports).flatMap(({ default: target }) =>
      target ? [normalize(target.types).replace(/^dist\//, '')] : [],
    ),
  );
  const texts = new Map();
  for (const file of found) {
    const text = read(file);
    texts.set(file, text);
    for (const { fileName } of ts.preProcessFile(text).importedFiles) {
      if (!fileName.startsWith('.')) continue;
      found.add(join(dirname(file), fileName).replace(/js$/, 'd.ts'));
    }
  }
  return texts;
}

function withoutComments(declarations) {
  const file = ts.createSourceFile('types.d.ts', declarations, ts.ScriptTarget.ES2023);
  return ts.createPrinter({ removeComments: true }).printFile(file);
}

function commonJs(source) {
  const { outputText } = ts.transpileModule(source, { compilerOptions: OPTIONS });
  return outputText.replaceAll('import.meta.url', FILE_URL);
}

function read(file) {
  return readFileSync(join(DIST, file), 'utf8');
}

function write(file, content, directory = OUTPUT) {
  const path = join(directory, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
