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

/** The directory of the mutated builds. It is below the root of the project, so that they find its node_modules. */
const DIRECTORY = '.mutants';

/** Compiles single TypeScript files to the output that `npm run build` writes for them. */
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
      // The compiler cannot see the package.json, so it does not know that a single file is an ES module.
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      declaration: false,
    };
  }

  read = (file: string): string => readFileSync(join(this.root, file), 'utf8');

  /**
   * Returns the JavaScript of a source file.
   *
   * @throws Error if the source has a syntax error
   */
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

  /** Returns the path of the compiled file, relative to the directory of a build. */
  outputOf(file: string): string {
    return relative('lib', file).replace(/\.ts$/, '.js');
  }
}

/**
 * Checks that the files in dist/ that correspond to the edited source files are up to date.
 *
 * @throws UsageError if they are not
 */
export function checkBuild(root: string, compiler: Compiler, { edits }: Mutant): void {
  for (const { file } of edits) {
    const built = join(root, 'dist', compiler.outputOf(file));
    const current = existsSync(built) ? readFileSync(built, 'utf8') : undefined;
    if (current === compiler.compile(file, compiler.read(file))) continue;
    throw new UsageError(`dist is not up to date with ${file}; run npm run build first`);
  }
}

/**
 * Copies the build, plants the mutant into the copy and returns the directory of the copy.
 *
 * @throws UsageError if a search string is not found exactly once; Error if the mutated source has a syntax error
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
  // Another run of the command may have a build in the same directory.
  if (existsSync(parent) && readdirSync(parent).length === 0) rmdirSync(parent);
}
