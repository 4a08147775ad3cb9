import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';
import { UsageError } from '../options.js';
import { type Mutant, mutatedSources } from './mutant.js';

/** Below the root of the project, so that mutated builds find its node_modules. Git ignores it. */
const DIRECTORY = '.mutants';

/** Turns single TypeScript files into what `npm run build` makes of them. */
export class Compiler {
  readonly #options: ts.CompilerOptions;

  /** @param root the directory of the project */
  constructor(private readonly root: string) {
    const host: ts.ParseConfigFileHost = {
      ...ts.sys,
      onUnRecoverableConfigFileDiagnostic: ({ messageText }) => {
        throw new Error(ts.flattenDiagnosticMessageText(messageText, '\n'));
      },
    };
    const config = join(root, 'tsconfig.build.json');
    this.#options = {
      ...ts.getParsedCommandLineOfConfigFile(config, {}, host)!.options,
      // Without the package.json beside it, the compiler cannot know that a single file is an ES module.
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      declaration: false,
    };
  }

  read = (file: string): string => readFileSync(join(this.root, file), 'utf8');

  /** @throws Error where the source is no TypeScript */
  compile(file: string, source: string): string {
    const { outputText, diagnostics = [] } = ts.transpileModule(source, {
      fileName: join(this.root, file),
      compilerOptions: this.#options,
      reportDiagnostics: true,
    });
    const [problem] = diagnostics;
    if (problem) {
      throw new Error(`${file}: ${ts.flattenDiagnosticMessageText(problem.messageText, '\n')}`);
    }
    return outputText;
  }

  /** The compiled file below the directory of a build. */
  outputOf(file: string): string {
    return relative('lib', file).replace(/\.ts$/, '.js');
  }
}

/**
 * Checks that the build is the one of the present source, as far as a mutant changes it.
 *
 * @throws UsageError where it is not
 */
export function checkBuild(root: string, compiler: Compiler, { edits }: Mutant): void {
  for (const { file } of edits) {
    const built = join(root, 'dist', compiler.outputOf(file));
    const present = existsSync(built) ? readFileSync(built, 'utf8') : undefined;
    if (present === compiler.compile(file, compiler.read(file))) continue;
    throw new UsageError(`dist is not the build of the present ${file}: run npm run build first`);
  }
}

/**
 * Makes a copy of the build with the mutant in it, and returns its directory.
 *
 * @throws UsageError where a search string is not found exactly once, Error where the mutated source does not parse
 */
export function buildMutant(root: string, compiler: Compiler, mutant: Mutant): string {
  const sources = mutatedSources(mutant, compiler.read);
  const directory = join(root, DIRECTORY, `${mutant.name}-${process.pid}`);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  cpSync(join(root, 'dist'), directory, {
    recursive: true,
    filter: (path) => !path.endsWith('.d.ts'),
  });
  for (const [file, source] of sources) {
    const target = join(directory, compiler.outputOf(file));
    writeFileSync(target, compiler.compile(file, source));
  }
  return directory;
}

export function removeBuild(directory: string): void {
  rmSync(directory, { recursive: true, force: true });
  const parent = dirname(directory);
  // Another run may have its builds there.
  if (existsSync(parent) && readdirSync(parent).length === 0) rmdirSync(parent);
}
