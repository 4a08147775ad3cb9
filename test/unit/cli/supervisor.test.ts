import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Supervisor } from '../../../lib/cli/supervisor.js';

describe('a supervisor', () => {
  it('does not start a command whose lease is lost already', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'supervisor-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const supervisor = new Supervisor();
    const lost = { signal: AbortSignal.abort(new Error('the lease was lost')) };
    const status = await supervisor.run(['touch', join(folder, 'started')], {}, lost);
    supervisor.stopListening();
    expect(status).toBeUndefined();
    expect(readdirSync(folder)).toEqual([]);
  });
});
