// Starts three replicas, and a ZooKeeper server unless ZK_CONNECT_STRING names one.
import { fork } from 'node:child_process';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';

const ZK_CONNECT_STRING =
  process.env.ZK_CONNECT_STRING ?? (await EmbeddedZooKeeper.start()).connectString;
const replicas = [1, 2, 3].map(() =>
  fork(new URL('main.js', import.meta.url), { env: { ...process.env, ZK_CONNECT_STRING } }),
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => replicas.forEach((replica) => replica.kill(signal)));
}
// A replica that cannot start ends with an exit code, one that is killed with a signal.
for (const replica of replicas) replica.on('exit', (code) => (process.exitCode ||= code ?? 0));
console.log(
  `Started the processes ${replicas.map(({ pid }) => pid).join(', ')}. Ctrl+C ends them.`,
);
