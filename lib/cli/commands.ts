import { setTimeout as pause } from 'node:timers/promises';
import { ConnectionError, type ZkClient } from '../client/index.js';
import { revoke } from '../recipes/index.js';
import { lockPath } from '../services/keys.js';
import type { Arguments } from './arguments.js';
import { lockAt, scanElections, scanLocks } from './scan.js';
import { electionTable, lockTable } from './table.js';

/** The command failed. The message says why; a stack trace would not help. */
export class Failure extends Error {}

type Print = (text: string) => void;

export async function locks(client: ZkClient, { path, json }: Arguments, print: Print) {
  const seen = await scanLocks(client, path);
  print(json ? asJson(seen) : lockTable(seen));
}

export async function leaders(client: ZkClient, { path, json }: Arguments, print: Print) {
  const seen = await scanElections(client, path);
  print(json ? asJson(seen) : electionTable(seen));
}

/** Prints locks and elections until `signal` aborts: redraws a terminal after each read, and appends only changes elsewhere. */
export async function watch(
  client: ZkClient,
  args: Arguments,
  print: Print,
  { signal, terminal }: { signal: AbortSignal; terminal: boolean },
) {
  const { json, every } = args;
  let shown = '';
  while (!signal.aborted) {
    const text = await snapshot(client, args);
    if (signal.aborted) return;
    if (terminal && !json) print(`\x1b[H\x1b[J${new Date().toLocaleTimeString()}\n\n${text}`);
    else if (text !== shown) print(json ? text : `${new Date().toISOString()}\n${text}\n`);
    shown = text;
    // It rejects only by the signal, which the loop checks.
    await pause(every, undefined, { signal }).catch(() => {});
  }
}

async function snapshot(client: ZkClient, { path, json }: Arguments): Promise<string> {
  try {
    const [locks, elections] = await Promise.all([
      scanLocks(client, path),
      // The option `path` is about locks.
      path ? [] : scanElections(client),
    ]);
    if (json) return asJson({ locks, elections });
    return `${lockTable(locks)}\n${electionTable(elections)}`;
  } catch (error) {
    // The ensemble may be available again at the next snapshot.
    if (!(error instanceof ConnectionError)) throw error;
    return json ? asJson({ error: error.message }) : `${error.message}\n`;
  }
}

export async function revokeLock(
  client: ZkClient,
  { subject, participant, json }: Arguments,
  print: Print,
) {
  const path = subject!.startsWith('/') ? subject! : lockPath(client.namespace, subject!);
  const found = await lockAt(client, path);
  const present = (await found?.lock.participants()) ?? [];
  const asked = present.filter((each) =>
    participant ? each.path === participant : each.state !== 'waiting',
  );
  if (asked.length === 0) {
    throw new Failure(
      participant ? `${participant} does not hold or wait for ${path}` : `nobody holds ${path}`,
    );
  }
  await Promise.all(asked.map((each) => revoke(client, each)));
  const names = asked.map((each) => each.path);
  print(json ? asJson(names) : names.map((name) => `asked ${name}\n`).join(''));
}

function asJson(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
