import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { freePorts, RealServer } from '../../scripts/faults/real-server.mjs';
import { inScratch, root, run } from '../../scripts/packed.mjs';
import { eventually } from '../support/eventually.js';

// oxlint-disable-next-line typescript/no-explicit-any
type Manifest = any;

const file = join(root, 'examples/kubernetes/zookeeper.yaml');
const documents = parseAllDocuments(await readFile(file, 'utf8')).map((each) => each.toJS());
const find = (kind: string): Manifest => documents.find((each: Manifest) => each.kind === kind);
const zooCfg: string = find('ConfigMap').data['zoo.cfg'];
const [container] = find('StatefulSet').spec.template.spec.containers;

it('the servers with the configuration of the manifest form an ensemble, and the probes see a lost quorum', () =>
  inScratch(async (scratch) => {
    const ports = await freePorts(9);
    const address = (server: number) => `127.0.0.1:${ports[server + 3]}:${ports[server + 6]}`;
    const servers = await Promise.all(
      [0, 1, 2].map(async (index) => {
        const directory = join(scratch, `zk-${index}`);
        await mkdir(join(directory, 'data'), { recursive: true });
        await writeFile(join(directory, 'data/myid'), `${index + 1}`);
        const configuration = zooCfg
          .replaceAll(/zk-(\d)\.zk:2888:3888/g, (_, server) => address(Number(server)))
          .replace('dataDir=/data', `dataDir=${directory}/data`)
          .replace('dataLogDir=/datalog', `dataLogDir=${directory}/datalog`)
          .replace('clientPort=2181', `clientPort=${ports[index]}`);
        return RealServer.in(directory, ports[index]!, configuration.split('\n'));
      }),
    );
    /** Whether each probe of the first server succeeds. */
    const probe = () =>
      Promise.all(
        [container.readinessProbe, container.livenessProbe].map(async ({ exec }: Manifest) => {
          const [program, ...args] = exec.command.map((part: string) =>
            part.replace('2181', String(ports[0])),
          );
          return run(program, args).then(
            () => true,
            () => false,
          );
        }),
      );
    try {
      expect(await probe()).toEqual([false, false]);
      for (const server of servers) server.launch();
      await Promise.all(servers.map((server) => server.serving()));
      expect(await probe()).toEqual([true, true]);
      const zookeeper = ports.slice(0, 3).map((port) => `127.0.0.1:${port}`);
      const doctor = ['doctor', '--zookeeper', zookeeper.join(), '--session-timeout', '10s'];
      await run(process.execPath, [join(root, 'dist/cli/main.js'), ...doctor]);
      await Promise.all(servers.slice(1).map((server) => server.stop()));
      await eventually(async () => expect(await probe()).toEqual([false, true]));
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
  }));
