import { spawnSync } from 'node:child_process';

/** Returns the files under version control, or those that one of git's patterns matches. */
export function trackedFiles(root: string, ...patterns: readonly string[]): string[] {
  const args = ['ls-files', '-z', '--', ...patterns];
  const { stdout, status } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Error('git cannot list the files of the project');
  return stdout.split('\0').filter(Boolean);
}
