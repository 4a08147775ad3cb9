import { createInterface } from 'node:readline';

// Listens from the start: the parent may exit before this process can serve.
const input = createInterface(process.stdin);
input.on('close', () => process.exit());

/** Answers the requests of ../peer.mjs. The parameters of a request are strings. */
export function serve(requests) {
  input.on('line', async (line) => {
    const [id, request, ...words] = line.split(' ');
    try {
      const result = await requests[request](Object.fromEntries(words.map(parse)));
      writeLine(`${id} ok ${JSON.stringify(result ?? null)}`);
    } catch (error) {
      writeLine(
        `${id} error ${(error instanceof Error ? String(error.stack) : String(error)).replaceAll('\n', ' ')}`,
      );
    }
  });
  writeLine('ready');
}

function writeLine(line) {
  process.stdout.write(`${line}\n`);
}

function parse(word) {
  const at = word.indexOf('=');
  return [word.slice(0, at), word.slice(at + 1)];
}
