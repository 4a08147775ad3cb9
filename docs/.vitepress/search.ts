import type { MarkdownEnv, MarkdownRenderer } from 'vitepress';
import { TESTED_BY } from './tested-by.js';

/** The words by which readers search for a page that uses other ones. The pages are paths from docs/ without `.md`. */
const SYNONYMS: Readonly<Record<string, string>> = {
  'quick-start': 'getting started install tutorial hello world nest add setup',
  comparison: 'redisson etcd consul postgres advisory lock pgbouncer alternatives versus',
  faq: 'lock held after a crash held after crash bun deno windows macos mac nested service lease supported versions released stable find current holder which process has the lock npm serverless lambda renew lease extend lease zookeeper down ensemble is down',
  performance: 'speed throughput latency benchmark slow fast',
  reliability: 'crash kill lock held after crash split brain failure pause',
  'guides/locks':
    'unlock release free mutex multiple keys several keys several locks multi-lock exclusive skip if busy 409 read write lock timeout wait job takes longer than expected slow method limit duration',
  'guides/semaphores': 'rate limit concurrency limit throttle at most n',
  'guides/leaders':
    'leader election master primary singleton one instance am I the leader isLeader',
  'guides/cron':
    'schedule scheduled job once runs twice replicas duplicate @Interval @Timeout interval',
  'guides/queues': 'bullmq kafka rabbitmq consumer worker event message',
  'guides/transactions': 'fence fencing token database prisma typeorm mysql postgres stale write',
  'guides/reentrancy': 'deadlock nested lock recursive reentrant runDetached',
  'guides/partitions': 'shard sharding consistent hashing spread work rebalance',
  'guides/members': 'service discovery group membership instances alive ephemeral node',
  'guides/live-configuration': 'feature flag dynamic config settings hot reload',
  'guides/counters-and-barriers': 'atomic counter sequence id barrier rendezvous',
  'guides/configuration':
    'forRoot forRootAsync ConfigService environment variable several connections',
  'guides/testing': 'unit test mock fake jest vitest test a lost lock embedded server',
  'guides/simulation': 'deterministic simulation seed fault injection model check',
  'guides/development':
    'restart hot reload watch sessionFile start without a server outage ensemble down zookeeper down',
  'guides/shutdown': 'graceful shutdown sigterm rolling update release on stop',
  'guides/deploy':
    'production kubernetes k8s docker helm monitoring alert alerts prometheus probes',
  'guides/integrations': 'nestjs-cls cqrs typeorm prisma events',
  'operations/zookeeper':
    'ensemble servers quorum session timeout docker local zookeeper stuck lock runbook rotate password acl rights permissions digest user',
  'operations/security': 'acl tls password session id attack hardening',
  'operations/telemetry': 'metrics traces opentelemetry prometheus grafana dashboard logging',
  'operations/health': 'health check terminus readiness liveness probe',
  'operations/other-servers': 'clickhouse keeper raftkeeper',
  'migrating/from-redlock': 'redis redlock ttl',
  'migrating/from-curator': 'java apache curator kazoo',
  'migrating/from-shedlock': 'shedlock spring scheduled',
  'reference/command-line': 'cli shell flock who holds the lock list locks doctor',
  'reference/options': 'sessionTimeout wait holdAtMost linger fairness warnAfter',
  'reference/transports': 'native wire c client tls ssl sasl kerberos',
  'reference/troubleshooting': 'error message exception log line warning',
  'reference/znode-layout': 'zkCli path delete znode',
};

/** Renders a page for the search index, with its synonyms below the title, and without the names of its tests. */
export async function renderForSearch(
  source: string,
  env: MarkdownEnv,
  markdown: MarkdownRenderer,
): Promise<string> {
  // Figures only: its rows would be found before the pages that explain them.
  if (env.relativePath === 'evidence/benchmark.md') return '';
  const html = await markdown.renderAsync(source.replace(TESTED_BY, ''), env);
  const synonyms = SYNONYMS[env.relativePath.replace(/\.md$/, '')];
  return synonyms ? html.replace('</h1>', `</h1><p>${synonyms}</p>`) : html;
}
