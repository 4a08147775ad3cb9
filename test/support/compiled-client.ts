import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import ts from 'typescript';
import { afterAll, beforeAll } from 'vitest';

/** Time limit of a program in milliseconds. */
const LIMIT = 60_000;
const root = fileURLToPath(new URL('../../', import.meta.url));

/** Compiles the client, and deletes the result after the tests of the file or of the `describe`. */
export function useCompiledClient(): Pick<CompiledClient, 'run'> {
  let compiled: CompiledClient;
  beforeAll(async () => {
    compiled = await CompiledClient.make();
  });
  afterAll(() => compiled[Symbol.asyncDispose]());
  return { run: (...program) => compiled.run(...program) };
}

/** lib/client and lib/protocol as JavaScript, for programs that run in a process of their own. */
class CompiledClient implements AsyncDisposable {
  private constructor(readonly directory: string) {}

  static async make(): Promise<CompiledClient> {
    const cache = join(root, 'node_modules/.cache');
    await mkdir(cache, { recursive: true });
    // Inside the package, so that imports of its dependencies resolve.
    const directory = await mkdtemp(join(cache, 'client-'));
    await writeFile(join(directory, 'package.json'), '{"type":"module"}');
    for (const folder of ['client', 'client/transport', 'client/transport/sasl', 'protocol']) {
      await mkdir(join(directory, folder));
      const source = join(root, 'lib', folder);
      const files = (await readdir(source)).filter((name) => name.endsWith('.ts'));
      for (const file of files) {
        const { outputText } = ts.transpileModule(await readFile(join(source, file), 'utf8'), {
          compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext },
        });
        await writeFile(join(directory, folder, file.replace(/ts$/, 'js')), outputText);
      }
    }
    return new CompiledClient(directory);
  }

  /**
   * Runs a program beside the compiled client until it exits, or kills it at the time limit.
   * `onOutput` receives what it prints.
   */
  async run(
    program: string,
    env: Record<string, string>,
    onLine: (line: string) => void = () => {},
  ): Promise<{ code: number | null; signal: string | null; stdout: string; stderr: string }> {
    const file = join(
      this.directory,
      'client',
      `program-${Math.random().toString(36).slice(2)}.mjs`,
    );
    await writeFile(file, program);
    const child = spawn(process.execPath, [file], { env: { ...process.env, ...env } });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk) => (stdout += chunk));
    createInterface(child.stdout).on('line', onLine);
    child.stderr.on('data', (chunk) => (stderr += chunk));
    const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT);
    return new Promise((resolve) => {
      child.on('close', (code, signal) => {
        clearTimeout(timer);
        resolve({ code, signal, stdout, stderr });
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}
