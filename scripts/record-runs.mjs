// npm run demo:record
// Plays each scenario on the real sample and writes what its page receives, for the page without a server.
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { openShop } from './browser.mjs';

const SCENARIOS = ['oversell', 'herd', 'sleeping-holder', 'killed-leader'];
const DIRECTORY = fileURLToPath(new URL('../sample-app/page/demo/recordings/', import.meta.url));

/** The greatest number of milliseconds between two recorded states: the page shows an older one as not confirmed. */
const STATUS_INTERVAL = 800;

/** Plays a scenario on a sample of its own, from its first status until its last caption. */
async function record(scenario) {
  const { url, stop } = await openShop();
  const stream = new AbortController();
  try {
    const answer = await fetch(`${url}/live/events`, { signal: stream.signal });
    const events = [];
    const statuses = [];
    let isPlayed = false;
    for await (const { type, data } of messages(answer.body)) {
      if (type === 'hello') events.push(...data.events);
      if (type === 'events') events.push(...data);
      if (type !== 'status') continue;
      keep(statuses, data);
      if (!data.instances.every(isReady)) continue;
      // Events are sent in batches: the last batch may come after the first status without a scenario.
      const end = events.findLast(({ type }) => type === 'caption')?.caption;
      if (end === 'aborted') throw new Error(`the scenario ${scenario} was aborted`);
      if (data.scenario) isPlayed = true;
      else if (!isPlayed && statuses.length > 1) await play(url, scenario);
      else if (end === 'end') return { events: rounded(events), statuses: rounded(statuses) };
    }
    throw new Error(`the events ended before the scenario ${scenario} did`);
  } finally {
    stream.abort();
    await stop();
  }
}

const isReady = ({ life, connection }) => life === 'alive' && connection === 'CONNECTED';

async function play(url, scenario) {
  const { ok, status } = await fetch(`${url}/live/scenarios/${scenario}`, { method: 'POST' });
  // The server refuses a second start, until its status names the scenario.
  if (!ok && status !== 409) throw new Error(`the scenario ${scenario}: status ${status}`);
}

/** Adds a state, unless it differs from the last one in times and figures only and comes soon after it. */
function keep(statuses, status) {
  const last = statuses.at(-1);
  const isSoon = last && status.at - last.at < STATUS_INTERVAL;
  if (isSoon && stateOf(last) === stateOf(status)) return;
  statuses.push(status);
}

const FIGURES = new Set(['at', 'confirmedAt', 'tally', 'stock', 'orders', 'fence']);

const stateOf = (status) =>
  JSON.stringify(status, (name, value) => (FIGURES.has(name) ? undefined : value));

/** Rounds times to tenths of a millisecond. */
const rounded = (list) =>
  JSON.parse(JSON.stringify(list), (_, value) =>
    typeof value === 'number' ? Math.round(value * 10) / 10 : value,
  );

/** Yields the server-sent events of a response. */
async function* messages(body) {
  let text = '';
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const parts = `${text}${chunk}`.split('\n\n');
    text = parts.pop() ?? '';
    for (const part of parts) {
      const fields = part.split('\n').map((line) => /^(\w+): ?(.*)$/.exec(line) ?? []);
      const { event: type, data } = Object.fromEntries(
        fields.map(([, name, value]) => [name, value]),
      );
      if (data !== undefined) yield { type, data: JSON.parse(data) };
    }
  }
}

mkdirSync(DIRECTORY, { recursive: true });
for (const scenario of SCENARIOS) {
  const { events, statuses } = await record(scenario);
  const lines = [events, statuses].map((list) =>
    list.map((each) => JSON.stringify(each)).join(',\n'),
  );
  const text = `{"events":[\n${lines[0]}\n],"statuses":[\n${lines[1]}\n]}\n`;
  writeFileSync(`${DIRECTORY}${scenario}.json`, text);
  console.log(
    `${scenario}: ${events.length} events, ${statuses.length} states, ${text.length} bytes`,
  );
}
