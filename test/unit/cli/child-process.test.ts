import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { START } from '../../../lib/cli/child-process.js';

describe('the script that starts a command', () => {
  it.each([
    ['', 1, ''],
    ['\n', 0, 'started\n'],
  ])('starts it only after a line in the pipe: %j', async (line, code, expected) => {
    const stdio = ['ignore', 'pipe', 'inherit', 'pipe'] as const;
    const child = spawn('/bin/sh', ['-c', START, 'sh', 'echo', 'started'], { stdio: [...stdio] });
    let out = '';
    child.stdout!.on('data', (data: Buffer) => (out += data.toString()));
    (child.stdio[3] as Writable).end(line);
    expect(await once(child, 'close')).toEqual([code, null]);
    expect(out).toBe(expected);
  });
});
