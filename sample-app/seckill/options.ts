import { parseArgs } from 'node:util';
import { DATABASE_SERVERS } from '../shop/database.js';
import { defaults } from '../shop/settings.js';

export interface SeckillOptions {
  instances: number;
  buyers: number;
  items: number;
  delay: readonly [from: number, to: number];
  zookeeper: string | undefined;
  database: string | undefined;
  json: boolean;
}

export const HELP = `npm run seckill -- [options]

Sells items to buyers who all come at once to several instances of the shop, first without a lock,
then with @DistributedLock.

  --instances N      processes of the shop (3)
  --buyers N         buyers, each with one request (1500)
  --items N          items in stock, at most one for each buyer (100)
  --delay FROM-TO    random milliseconds between reading the stock and writing it (${defaults.delay.join('-')})
  --zookeeper LIST   host:port[,host:port…][/chroot] (default: an embedded server)
  --database URL     mysql://…, mariadb://… or postgres://… (default: a temporary SQLite file)
  --json             print the figures as one JSON object
  --help             print this text

The exit code is 0 if the locked run sold exactly the stock, 1 if not, and 2 for a wrong option.`;

/** An invalid command line or environment. The message is one line. */
export class UsageError extends Error {}

export function parseOptions(args: string[]): SeckillOptions | 'help' {
  const values = parse(args);
  if (values.help) return 'help';
  const options = {
    instances: wholeNumber('--instances', values.instances, 1, 64),
    buyers: wholeNumber('--buyers', values.buyers, 1, 20_000),
    items: wholeNumber('--items', values.items, 1, 20_000),
    delay: range('--delay', values.delay, 10_000),
    zookeeper: values.zookeeper,
    database: values.database,
    json: values.json,
  };
  if (options.items > options.buyers) {
    throw new UsageError(
      `--items (${options.items}) must not exceed --buyers (${options.buyers}): nothing would sell out`,
    );
  }
  if (options.instances > options.buyers) {
    throw new UsageError(
      `--instances (${options.instances}) must not exceed --buyers (${options.buyers})`,
    );
  }
  if (values.zookeeper !== undefined) checkServers('--zookeeper', values.zookeeper);
  if (values.database !== undefined) checkDatabase('--database', values.database);
  return options;
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      strict: true,
      allowPositionals: false,
      options: {
        instances: { type: 'string', default: '3' },
        buyers: { type: 'string', default: '1500' },
        items: { type: 'string', default: '100' },
        delay: { type: 'string', default: defaults.delay.join('-') },
        zookeeper: { type: 'string' },
        database: { type: 'string' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message.split(/[.\n]/)[0], { cause: error });
  }
}

export function wholeNumber(name: string, text: string, from: number, to: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= from && value <= to) return value;
  throw new UsageError(`${name} must be a whole number from ${from} to ${to}, but is '${text}'`);
}

function range(flag: string, text: string, to: number): readonly [number, number] {
  const [, low, high = low] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  const bounds = [Number(low), Number(high)] as const;
  if (bounds[0] <= bounds[1] && bounds[1] <= to) return bounds;
  throw new UsageError(
    `${flag} must be a range of milliseconds such as 0-20, at most ${to}, but is '${text}'`,
  );
}

export function checkServers(name: string, list: string): void {
  const [servers] = list.split(/(?=\/)/);
  if (servers.split(',').every(isServer)) return;
  throw new UsageError(`${name} must be host:port[,host:port…][/chroot], but is '${list}'`);
}

function isServer(server: string): boolean {
  const port = Number(/^(?:[\w.-]+|\[[\da-fA-F:]+\]):(\d{1,5})$/.exec(server)?.[1]);
  return port >= 1 && port <= 65_535;
}

export function checkDatabase(name: string, url: string): void {
  if (URL.canParse(url)) {
    const { protocol, hostname, pathname } = new URL(url);
    if (DATABASE_SERVERS.includes(protocol) && hostname && pathname.length > 1) return;
  }
  // The value is not shown: it may contain a password.
  throw new UsageError(
    `${name} must be a URL such as mysql://user:password@host:3306/shop or postgres://user:password@host:5432/shop`,
  );
}
