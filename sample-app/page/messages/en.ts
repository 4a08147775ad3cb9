import type { LogLine } from '../run/run-model.js';
import type { Verdict } from '../run/verdict.js';
import { ENGLISH as timeline } from '../timeline/text.js';
import { type Messages, seconds } from './messages.js';

const count = (number: number, one: string, many = `${one}s`) =>
  `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
const phones = (number: number) => count(number, 'phone');
const buyers = (number: number) => count(number, 'buyer');
const instance = (number: number | undefined) => `instance ${number}`;
const Instance = (number: number | undefined) => `Instance ${number}`;
const aborted = () => 'The scenario was stopped.';

function verdict({ kind, tally, orders, fell, items, reason, ...rest }: Verdict): string {
  switch (kind) {
    case 'selling':
      return `${count(tally.sold, 'phone')} sold. ${buyers(tally.unanswered)} waiting for an answer.`;
    case 'oversold':
      return `Oversold: ${count(orders, 'order')} for ${phones(items)}.`;
    case 'lost-update':
      return `${count(orders, 'order')}, but the stock fell by ${fell}${fell! < orders ? ' only' : ''}.`;
    case 'exact':
      return rest.buyers < items
        ? `All ${buyers(rest.buyers)} got a phone, no phone was sold twice.`
        : `Sold exactly ${items.toLocaleString('en')}, none twice.`;
    case 'left':
      return `${count(items - orders, 'phone is', 'phones are')} left. ${count(tally.refused, 'request was', 'requests were')} refused.`;
    case 'unanswered':
      return `None sold twice, but ${buyers(tally.unanswered)} got no answer.`;
    case 'unchecked':
      return `${tally.sold.toLocaleString('en')} sold. The database did not answer, so the stock is not checked.`;
    case 'failed':
      return `The sale could not run: ${reason ?? 'the server does not say why'}.`;
  }
}

const FAULTS = {
  pause: 'was paused',
  cut: 'was cut off from ZooKeeper',
  expire: 'had its session expired',
} as const;

const FAULT_ENDS = {
  pause: 'runs again',
  cut: 'has its network back',
  expire: 'has a new session',
} as const;

/** Why a lock was not granted. */
const NOT_GRANTED: Readonly<Record<string, string>> = {
  busy: 'the lock was held',
  'timed-out': 'the wait was too long',
  cancelled: 'the wait was cancelled',
  'no-connection': 'there was no connection to ZooKeeper',
  failed: 'the client reported an error',
};

const MODES: Messages['modes'] = {
  both: { name: 'Both', hint: 'Two sales at once: one without a lock, one with it.' },
  none: {
    name: 'No lock',
    hint: 'Nothing keeps two buyers from selling the same phone.',
    title: 'Without a lock',
    sale: 'The sale without a lock',
    notStarted: 'All buyers write at once.',
  },
  lock: {
    name: 'Lock',
    hint: 'One buyer at a time. An instance passes the lock from buyer to buyer, then on to the next instance.',
    title: 'With the lock',
    sale: 'The sale with the lock',
    notStarted: 'One buyer writes at a time.',
  },
  lingering: {
    name: 'Lingering',
    hint: 'As Lock, but an idle instance keeps the lock until another instance requests it.',
    title: 'With the lingering lock',
    sale: 'The sale with the lingering lock',
    notStarted: 'One buyer writes at a time.',
  },
  strict: {
    name: 'Strict',
    hint: 'One buyer at a time, in the order of arrival across all instances.',
    title: 'With the strict lock',
    sale: 'The sale with the strict lock',
    notStarted: 'One buyer writes at a time.',
  },
};

function logLine(line: LogLine, outcome: string | undefined): string {
  const { kind, mode = 'lock', reason } = line;
  const who = line.instance === undefined ? 'ZooKeeper' : Instance(line.instance);
  const { sale } = MODES[mode];
  switch (kind) {
    case 'sale-started':
      return `${sale} began.`;
    case 'sale-ended':
      return `${sale} ended. ${outcome ?? ''}`;
    case 'sale-failed':
      return `${sale} could not run: ${reason}.`;
    case 'fault':
      return `${who} ${FAULTS[line.fault!]}.`;
    case 'fault-ended':
      return `${who} ${FAULT_ENDS[line.fault!]}.`;
    case 'died':
      return `${who} died.`;
    case 'started':
      return `${who} started.`;
    case 'suspended':
      return `${who} lost its connection; its session may still be alive.`;
    case 'session-lost':
      return `${who} lost its session, and every lock with it.`;
    case 'connected':
      return `${who} is connected again.`;
    case 'leader':
      return `${who} leads.`;
    case 'ensemble-silent':
      return 'ZooKeeper stopped answering.';
    case 'ensemble-answers':
      return 'ZooKeeper answers again.';
    case 'lease-lost':
      return `${who} lost its lease${line.token ? ` with token ${line.token}` : ''}.`;
    case 'write-refused':
      return `The fence refused a late write of ${instance(line.instance)}, token ${line.token}.`;
    case 'not-granted':
      return `${count(line.count ?? 1, 'lock request')} of ${instance(line.instance)} failed: ${NOT_GRANTED[reason!] ?? reason}.`;
    case 'moved-on':
      return `The lock moved on from ${instance(line.from)} to ${instance(line.instance)}.`;
  }
}

export const en: Messages = {
  title: 'Flash sale',
  headline: (items, of, servers) => `${phones(items)}. ${buyers(of)}. ${count(servers, 'server')}.`,
  lead: (from, to) =>
    `Every buyer reads the stock, waits ${from === to ? from : `${from} to ${to}`} ms, and writes the stock minus one. See what happens without a lock, and with one.`,
  run: { both: 'Run both', one: 'Run' },
  running: 'Running…',
  scenarios: 'Or watch a story',
  scenarioNames: {
    oversell: 'The oversell',
    herd: 'The herd',
    'sleeping-holder': 'The holder that sleeps',
    'killed-leader': 'The killed leader',
  },
  captions: {
    oversell: {
      start: () => 'Two sales begin at once: one without a lock, one with it.',
      'same-stock': () =>
        'Two buyers have read the same stock. Both will write the same number, so one phone is sold twice.',
      end: () => 'Without the lock, more phones are ordered than exist. With it, exactly as many.',
      aborted,
    },
    herd: {
      start: () => 'Every buyer queues for a strict lock: one znode for each of them.',
      queue: () => 'A long queue. Each waiter watches only the znode in front of it.',
      release: () => 'A holder released the lock. ZooKeeper notified one waiter, not the herd.',
      end: () => 'Each release woke one waiter, in the order of arrival.',
      aborted,
    },
    'sleeping-holder': {
      start: () => 'A sale with the lock. Watch the holder.',
      sleep: (number) =>
        `${Instance(number)} holds the lock and falls asleep between its read and its write.`,
      'moved-on': (number) =>
        `Its session expired, so the lock moved on. ${Instance(number)} holds it now.`,
      wake: (number) =>
        `${Instance(number)} wakes up. It does not check whether it still holds the lock, and writes.`,
      refused: () => 'The fence refuses the write: a later holder has stored a higher token.',
      lost: (number) => `${Instance(number)} learns that its lease is lost.`,
      end: () => 'The lock moved on, and the late write did no harm.',
      aborted,
    },
    'killed-leader': {
      start: () => 'One instance leads. It alone closes unpaid orders.',
      kill: (number) => `${Instance(number)}, the leader, was killed.`,
      elected: (number) => `Its session expired. ${Instance(number)} was elected in its place.`,
      revive: (number) => `${Instance(number)} starts again, as a follower.`,
      end: () => 'There was never more than one leader.',
      aborted,
    },
  },
  settings: 'Settings',
  lock: 'Sale',
  modes: MODES,
  buyers: 'Buyers',
  items: 'Phones',
  delayFrom: 'Delay from, ms',
  delayTo: 'Delay to, ms',
  invalid:
    'Buyers and phones: 1 to 2,000, but at most 500 buyers with the strict lock. Both delays must be from 0 to 3,000 ms, and the first must not exceed the second.',
  onlyHere:
    'You are watching. Only the machine that runs the shop can start a sale or cause a fault.',
  preparing: 'Putting the phones on the shelf…',
  verdict,
  tally: { sold: 'Sold', soldOut: 'Sold out', refused: 'Refused', unanswered: 'Unanswered' },
  byFence: (number) => `${count(number, 'late write')} refused by the fence`,
  unconnected: (number) => `${count(number, 'request')} without a connection to ZooKeeper`,
  database: (orders, stock) =>
    orders === undefined
      ? 'The database has not answered yet.'
      : `Database: ${count(orders, 'order')}, ${stock} in stock`,
  lastRead: (age) => `read ${age} ago`,
  instance: Instance,
  holds: 'holds',
  leads: 'leads',
  leader: (number) => (number === undefined ? 'No instance leads.' : `${Instance(number)} leads.`),
  states: {
    starting: 'starting',
    dead: 'dead',
    connected: 'connected',
    connecting: 'connecting',
    suspended: 'suspended',
    lost: 'session lost',
    paused: 'paused',
  },
  cutOff: 'network cut',
  notConfirmed: (age) => `not confirmed for ${age}`,
  lockFreeIn: (time) => `lock is free in ${time}`,
  lockFreeSoon: 'lock is free any moment now',
  actions: {
    pause: 'Pause',
    resume: 'Resume',
    cut: 'Cut network',
    heal: 'Reconnect',
    kill: 'Kill',
    revive: 'Revive',
    expire: 'Expire',
  },
  actionOn: (action, number) => `${action}: ${instance(number)}`,
  pauseZookeeper: 'Pause ZooKeeper',
  resumeZookeeper: 'Resume ZooKeeper',
  answers: 'answers',
  silentFor: (age) => `no answer for ${age}`,
  link: {
    connecting: 'Connecting…',
    live: 'Live',
    noConnection: (age) =>
      `Disconnected from the server for ${age}. The page shows the last state that it received.`,
    silent: (age) => `ZooKeeper has not answered for ${age}.`,
    noConnectionNow:
      'Disconnected from the server. The page shows the last state that it received.',
    silentNow: 'ZooKeeper does not answer.',
  },
  log: 'What happened',
  emptyLog: 'Nothing yet.',
  forgotten: (events) =>
    `${count(events, 'older event is', 'older events are')} no longer kept. The timelines lack states that began in them.`,
  logLine,
  share: {
    picture: 'Save as picture',
    link: 'Copy link',
    copied: 'Link copied',
    shownLink: 'The link could not be copied. Copy it here:',
    fileName: 'flash-sale.png',
  },
  noAnswer: 'The server does not answer.',
  seconds: (ms) => `${seconds(ms)} s`,
  language: '中文',
  timeline,
};
