import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { SeckillResult } from '../../sample-app/seckill/result.js';

const built = (file: string) =>
  fileURLToPath(new URL(`../../dist-sample/${file}`, import.meta.url));

export const INSTANCE = built('instance.js');

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
  /** The temporary files that it left behind. */
  left: string[];
}

/**
 * The built seckill command in a process of its own, with its own directory for temporary files.
 */
export class SeckillProcess {
  stdout = '';
  stderr = '';
  readonly ended: Promise<Ended>;

  private constructor(
    private readonly child: ReturnType<typeof spawn>,
    temporary: string,
  ) {
    child.stdout!.on('data', (chunk: Buffer) => (this.stdout += chunk.toString()));
    child.stderr!.on('data', (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.ended = once(child, 'close').then(async ([code]) => {
      const left = await readdir(temporary);
      await rm(temporary, { recursive: true });
      return { code: code as number | null, stdout: this.stdout, stderr: this.stderr, left };
    });
  }

  static async start(...args: string[]): Promise<SeckillProcess> {
    const temporary = await mkdtemp(join(tmpdir(), 'seckill-test-'));
    const child = spawn(process.execPath, [built('seckill.js'), ...args], {
      env: { ...process.env, TMPDIR: temporary },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new SeckillProcess(child, temporary);
  }

  /** Resolves when stderr contains the text; rejects when the process exits without it. */
  async says(text: RegExp): Promise<void> {
    while (!text.test(this.stderr)) {
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        throw new Error(`exited without ${text}: ${this.stderr}`);
      }
      await Promise.race([once(this.child.stderr!, 'data'), this.ended]);
    }
  }

  get instancePids(): number[] {
    return [...this.stderr.matchAll(/^instance \d+: .* pid (\d+)$/gm)].map(([, pid]) =>
      Number(pid),
    );
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }
}

export async function seckill(...args: string[]): Promise<Ended & { result: SeckillResult }> {
  const ended = await (await SeckillProcess.start('--json', ...args)).ended;
  if (!ended.stdout) throw new Error(ended.stderr);
  return { ...ended, result: JSON.parse(ended.stdout) as SeckillResult };
}

export function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
