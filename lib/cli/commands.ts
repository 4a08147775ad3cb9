import { setTimeout as pause } from 'node:timers/promises';
import { CoordinationError, type ZkClient } from '../client/index.js';
import { revoke } from '../recipes/index.js';
import { lockPath } from '../services/keys.js';
import type { Arguments } from './arguments.js';
import { lockAt, scanElections, scanLocks } from './scan.js';
import { electionTable, lockTable } from './table.js';

/** What was asked for cannot be done, for a reason that its user knows how to deal with. */
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

/** Until `signal` aborts. A terminal is drawn anew; anything else gets what changed. */
export async function watch(
  client: ZkClient,
  { path, json, every }: Arguments,
  print: Print,
  { signal, terminal }: { signal: AbortSignal; terminal: boolean },
) {
  let shown = '';
  while (!signal.aborted) {
    const text = await look(client, path, json);
    if (signal.aborted) return;
    if (terminal && !json) print(`\x1b[H\x1b[J${new Date().toLocaleTimeString()}\n\n${text}`);
    else if (text !== shown) print(json ? text : `${new Date().toISOString()}\n${text}\n`);
    shown = text;
    await pause(every, undefined, { signal }).catch(() => {});
  }
}

async function look(client: ZkClient, path: string | undefined, json: boolean): Promise<string> {
  try {
    const [held, elections] = await Promise.all([
      scanLocks(client, path),
      // Of a given path it is not known what is there; elections say so by themselves.
      path ? [] : scanElections(client),
    ]);
    if (json) return asJson({ locks: held, elections });
    return `${lockTable(held)}\n${electionTable(elections)}`;
  } catch (error) {
    // It goes on: the ensemble may be back with the next look.
    if (!(error instanceof CoordinationError) || error.code !== 'CONNECTION') throw error;
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
  const asked = participant
    ? present.filter((each) => each.path === participant)
    : present.filter(({ state }) => state === 'holding');
  if (asked.length === 0) {
    throw new Failure(
      participant ? `${participant} does not take part in ${path}` : `nobody holds ${path}`,
    );
  }
  await Promise.all(asked.map((each) => revoke(client, each)));
  const names = asked.map((each) => each.path);
  print(json ? asJson(names) : names.map((name) => `asked ${name}\n`).join(''));
}

function asJson(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
