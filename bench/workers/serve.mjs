import { createInterface } from 'node:readline';

// From the start: whoever asked for this process may be gone before it can serve.
const input = createInterface(process.stdin);
input.on('close', () => process.exit());

/** Answers the lines that ../peer.mjs sends by `requests`, each of which gets its parameters as strings. */
export function serve(requests) {
  input.on('line', async (line) => {
    const [id, request, ...words] = line.split(' ');
    try {
      const result = await requests[request](Object.fromEntries(words.map(parse)));
      say(`${id} ok ${JSON.stringify(result ?? null)}`);
    } catch (error) {
      say(`${id} error ${String(error?.stack ?? error).replaceAll('\n', ' ')}`);
    }
  });
  say('ready');
}

function say(line) {
  process.stdout.write(`${line}\n`);
}

function parse(word) {
  const at = word.indexOf('=');
  return [word.slice(0, at), word.slice(at + 1)];
}
