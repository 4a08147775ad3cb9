import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import MiniSearch from 'minisearch';

/** How many different pages a reader looks at. */
const FIRST = 3;

/**
 * What readers type, and the pages of which one must be among the first three.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const QUERIES = {
  unlock: ['guides/locks'],
  'release lock': ['guides/locks'],
  'monitoring alert': ['guides/deploy'],
  'ensemble down': ['faq', 'guides/development', 'operations/zookeeper'],
  'zookeeper is down': ['faq', 'guides/development'],
  'lock held after crash': ['faq', 'reliability', 'guides/development'],
  'nested service lease': ['faq', 'guides/locks'],
  'renew lease': ['faq', 'guides/locks'],
  bun: ['faq'],
  deno: ['faq'],
  windows: ['faq'],
  'lost lock': ['guides/locks'],
  'several keys': ['guides/locks'],
  'read write lock': ['guides/locks'],
  'try lock': ['guides/locks'],
  'rate limit': ['guides/semaphores'],
  'leader election': ['guides/leaders'],
  'am I the leader': ['guides/leaders'],
  'cron runs twice': ['guides/cron', 'faq'],
  '@Interval': ['guides/cron'],
  bullmq: ['guides/queues'],
  kafka: ['guides/queues', 'faq'],
  prisma: ['guides/transactions', 'guides/integrations'],
  'fencing token': ['guides/transactions', 'introduction'],
  deadlock: ['guides/reentrancy'],
  'feature flag': ['guides/live-configuration'],
  'service discovery': ['guides/members'],
  'atomic counter': ['guides/counters-and-barriers'],
  sharding: ['guides/partitions'],
  'unit test': ['guides/testing'],
  mock: ['guides/testing'],
  'graceful shutdown': ['guides/shutdown'],
  kubernetes: ['guides/deploy', 'operations/zookeeper'],
  docker: ['operations/zookeeper'],
  'rotate password': ['operations/zookeeper'],
  permissions: ['operations/zookeeper'],
  'digest user rights': ['operations/zookeeper'],
  'stuck lock': ['operations/zookeeper', 'faq'],
  'session timeout': ['operations/zookeeper'],
  redlock: ['migrating/from-redlock'],
  redisson: ['comparison'],
  pgbouncer: ['comparison'],
  'who holds the lock': ['faq', 'reference/command-line'],
  prometheus: ['operations/telemetry', 'guides/deploy', 'operations/zookeeper'],
  'health check': ['operations/health'],
  clickhouse: ['operations/other-servers'],
  tls: ['reference/transports'],
  ECONNREFUSED: ['reference/troubleshooting'],
};

/**
 * Returns the queries for which the search of a built site does not show the right page.
 *
 * @param {string} site
 */
export async function searchProblems(site) {
  const chunks = join(site, 'assets/chunks');
  const file = readdirSync(chunks).find((name) => name.startsWith('@localSearchIndexroot'));
  if (!file) return ['the site has no search index'];
  const module = await import(pathToFileURL(join(chunks, file)).href);
  // As in VitePress's VPLocalSearchBox.vue.
  const index = MiniSearch.loadJSON(module.default, {
    fields: ['title', 'titles', 'text'],
    storeFields: ['title', 'titles'],
    searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
  });
  return Object.entries(QUERIES).flatMap(([query, wanted]) => {
    const pages = index.search(query).map(({ id }) => String(id).slice(1).split('#')[0] ?? '');
    const first = [...new Set(pages)].slice(0, FIRST);
    if (wanted.some((page) => first.includes(page))) return [];
    return [`the search for "${query}" shows ${first.join(', ')}, and not ${wanted.join(' or ')}`];
  });
}
