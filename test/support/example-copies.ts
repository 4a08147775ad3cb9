import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { inScratch, install, pack, root, run } from '../../scripts/packed.mjs';

/**
 * Copies the folder of an example, installs its packages and the packed library there, and starts it as its readers do.
 * Resolves with what it has printed.
 */
export function runCopy(example: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
  return inScratch(async (scratch) => {
    const copy = join(scratch, example);
    await cp(join(root, 'examples', example), copy, {
      recursive: true,
      filter: (file) => !/\/(node_modules|dist|generated)$/.test(file),
    });
    await install(copy, await pack(scratch));
    const { stdout } = await run('npm', ['start'], { cwd: copy, env: { ...process.env, ...env } });
    return stdout;
  });
}
