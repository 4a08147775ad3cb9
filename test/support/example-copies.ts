import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { inScratch, install, pack, root, run } from '../../scripts/packed.mjs';

/**
 * Copies the folder of an example, installs its packages and the packed library there, and runs one of its scripts, as a reader
 * does. Resolves with what the script has printed.
 */
export function runCopy(
  example: string,
  script: 'build' | 'start',
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  return inScratch(async (scratch) => {
    const copy = join(scratch, example);
    await cp(join(root, 'examples', example), copy, {
      recursive: true,
      filter: (file) => !/\/(node_modules|dist|generated)$/.test(file),
    });
    await install(copy, await pack(scratch));
    const { stdout } = await run('npm', ['run', script], {
      cwd: copy,
      env: { ...process.env, ...env },
    });
    return stdout;
  });
}
