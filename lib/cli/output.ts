import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Returns JSON in one line. Other clients write a part of it, so characters that could change what a terminal shows are
 * escaped: control characters, invisible ones and line separators.
 */
export function toJson(value: unknown): string {
  return JSON.stringify(value).replace(/[\p{C}\p{Zl}\p{Zp}\p{DI}]/gu, escaped);
}

/** A character beyond U+FFFF has two code units. */
function escaped(character: string): string {
  return Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`,
  ).join('');
}

/** Writes a line to the standard error. */
export function warn(text: string): void {
  process.stderr.write(`nestjs-zookeeper: ${text}\n`);
}

/** Milliseconds. The standard error may be a full pipe that nobody reads. */
const NOTE_LIMIT = 1000;
/** The number of notes that wait for another one. Further notes are dropped. */
const MAX_NOTES = 10;
const notes: string[] = [];
let writing: Promise<void> | undefined;

/**
 * Writes a line to the standard error, unless nobody reads it. `process.stderr` would block the event loop then, and `fs.write`
 * a thread that Node waits for at its exit. So another process writes.
 */
export function note(text: string): void {
  if (notes.length < MAX_NOTES) notes.push(`nestjs-zookeeper: ${text}\n`);
  writing ??= writeNotes().finally(() => (writing = undefined));
}

/** Resolves when the notes were written or dropped. */
export async function notesWritten(): Promise<void> {
  await writing;
}

async function writeNotes(): Promise<void> {
  while (notes.length > 0) {
    const text = notes.splice(0).join('');
    const writer = spawn('/bin/sh', ['-c', 'printf %s "$1" >&2', 'sh', text], {
      stdio: ['ignore', 'ignore', 'inherit'],
      timeout: NOTE_LIMIT,
      killSignal: 'SIGKILL',
    });
    // A machine without a shell.
    await once(writer, 'exit').catch(() => process.stderr.write(text));
  }
}
