import { join } from 'node:path';
import ts from 'typescript';
import { root } from '../packed.mjs';

/** Blocks are compiled as files of this directory, which declares the names that the pages leave out. */
const CONTEXT = join(root, 'scripts/docs/context');

/** Returns the compiler's errors in the TypeScript blocks, with the line numbers of the pages. */
export function compile(blocks) {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(
    // Without `paths`, the package's name resolves to its published types.
    { ...config.compilerOptions, paths: {}, noUnusedLocals: false, noUnusedParameters: false },
    root,
  );
  const files = new Map(
    blocks.map((block, index) => [
      join(CONTEXT, `block-${index}.ts`),
      { block, text: module(block) },
    ]),
  );
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (file) => files.has(file) || fileExists(file);
  host.readFile = (file) => files.get(file)?.text ?? readFile(file);
  host.getSourceFile = (file, version, ...rest) => {
    const text = files.get(file)?.text;
    return text === undefined
      ? getSourceFile(file, version, ...rest)
      : ts.createSourceFile(file, text, version);
  };
  const declared = ['globals.d.ts', 'modules.d.ts'].map((name) => join(CONTEXT, name));
  const program = ts.createProgram([...declared, ...files.keys()], options, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
    const message = ts.flattenDiagnosticMessageText(messageText, '\n');
    if (!file) return message;
    const { line } = file.getLineAndCharacterOfPosition(start);
    return `${files.get(file.fileName)?.block.page ?? file.fileName}:${line + 1} ${message}`;
  });
}

export function toJavaScript({ code }) {
  return ts.transpile(code, {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
  });
}

/** Completes a block that is part of a class or of a method. The block keeps its line numbers. */
function module({ line, code }) {
  const [before, after] = isMembers(code)
    ? ['class Example extends Context {', '}']
    : isBody(code)
      ? ['export async function example(this: Context) {', '}']
      : ['', ''];
  const whole = code.replace(/^ *…$/gm, '');
  return `${'\n'.repeat(line - 2)}${before}\n${whole}${after}\nexport {};\n`;
}

function isMembers(code) {
  return code.startsWith('@') && !/^(export )?class /m.test(code);
}

function isBody(code) {
  return code.includes('this.') && !code.includes('class ');
}
