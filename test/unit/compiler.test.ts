import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
/** All but `schedule`, whose options extend those of `@nestjs/schedule`. */
const ENTRY_POINTS = [
  ['nestjs-zookeeper', 'lib/index.ts'],
  ['nestjs-zookeeper/embedded', 'lib/embedded/index.ts'],
  ['nestjs-zookeeper/opentelemetry', 'lib/opentelemetry/index.ts'],
  ['nestjs-zookeeper/terminus', 'lib/terminus/index.ts'],
  ['nestjs-zookeeper/testing', 'lib/testing/index.ts'],
] as const;
/** What callers pass. The other types with optional properties are what they get. */
const INPUT = /(Options|Defaults|Details|Extras|Query|Policy|Scope|WarnAfter|AtStart)$/;

const VIRTUAL = `${ROOT}test/unit/virtual.ts`;

const parsed = new Map<string, ts.SourceFile | undefined>();

/** Compiles a program that consists of `text`, with the sources of the library. */
function compile(text: string, flags: ts.CompilerOptions = {}): ts.Program {
  const { config } = ts.readConfigFile(`${ROOT}tsconfig.json`, ts.sys.readFile) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT);
  const host = ts.createCompilerHost({ ...options, ...flags });
  const { getSourceFile, fileExists } = host;
  host.fileExists = (file) => file === VIRTUAL || fileExists(file);
  host.getSourceFile = (file, version, ...rest) => {
    if (file === VIRTUAL) return ts.createSourceFile(file, text, version);
    if (!parsed.has(file)) parsed.set(file, getSourceFile(file, version, ...rest));
    return parsed.get(file);
  };
  const files = [VIRTUAL, ...ENTRY_POINTS.map(([, file]) => ROOT + file)];
  return ts.createProgram(files, { ...options, ...flags }, host);
}

function errorsOf(program: ts.Program): string[] {
  return ts
    .getPreEmitDiagnostics(program, program.getSourceFile(VIRTUAL))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

/** Lists the public types that callers pass, as `[file, name]`. Entry points export those that callers may have to name. */
function inputTypes(program: ts.Program): [string, string][] {
  // Binds the files, so that the nodes have their comments.
  program.getTypeChecker();
  const files = program
    .getSourceFiles()
    .filter(({ fileName }) => fileName.startsWith(`${ROOT}lib/`));
  return files.flatMap(({ fileName, statements }) =>
    statements
      .filter((one) => ts.isInterfaceDeclaration(one) || ts.isTypeAliasDeclaration(one))
      .filter((one) => ts.getJSDocTags(one).some(({ tagName }) => tagName.text === 'publicApi'))
      .map(({ name }) => name.text)
      .filter((name) => INPUT.test(name))
      .map((name): [string, string] => [fileName.replace(/ts$/, 'js'), name]),
  );
}

const USE = `
  import { DistributedLock, type LockService, ZkModule } from 'nestjs-zookeeper';
  import { ZookeeperInstrumentation } from 'nestjs-zookeeper/opentelemetry';
  /** As in @opentelemetry/instrumentation. */
  interface Instrumentation<Config extends { enabled?: boolean } = { enabled?: boolean }> {
    setConfig(config: Config): void;
    getConfig(): Config;
  }
  export const instrumentations: Instrumentation[] = [new ZookeeperInstrumentation()];
  declare const wait: number | undefined;
  declare const locks: LockService;
  export const connection = ZkModule.forRoot({
    connectString: process.env.ZK_CONNECT_STRING,
    embedded: process.env.NODE_ENV === 'development',
    namespace: process.env.ZK_NAMESPACE,
    defaults: { wait, details: { name: process.env.HOSTNAME } },
    retry: { type: 'exponential', maxRetries: wait },
    name: process.env.ZK_NAME,
  });
  export class Stock {
    @DistributedLock('stock', { wait, mode: undefined, onBusy: undefined })
    async take(): Promise<string> {
      return locks.withLock('stock', { wait, signal: undefined, holdAtMost: wait }, () => '');
    }
  }
`;

const skipped = compile(`
  import { DistributedLock, LeaderOnly } from 'nestjs-zookeeper';
  export class Stock {
    @DistributedLock('stock', { wait: 0, onBusy: 'skip' })
    async take(): Promise<string> { return ''; }
    @LeaderOnly({ election: 'job', otherwise: 'skip' })
    async count(): Promise<string> { return ''; }
  }`);

it('with exactOptionalPropertyTypes, every option accepts undefined', () => {
  const types = inputTypes(skipped);
  expect(types.length).toBeGreaterThan(25);
  const checks = types.map(
    ([file, name], index) => `
      type T${index} = import('${file}').${name};
      export const check${index} = (options: WithUndefined<T${index}>): T${index} => options;`,
  );
  const text = `
    ${USE}
    type WithUndefined<T> = T extends (...args: never[]) => unknown
      ? T
      : { [K in keyof T]: {} extends Pick<T, K> ? T[K] | undefined : T[K] };
    ${checks.join('')}
  `;
  expect(errorsOf(compile(text, { exactOptionalPropertyTypes: true }))).toEqual([]);
});

it('the compiler explains why a call cannot be skipped', () => {
  const errors = errorsOf(skipped);
  expect(errors).toHaveLength(2);
  for (const error of errors) {
    expect(error).toContain('A skipped call resolves to undefined');
    expect(error).toContain('Declare the result as Promise<T | undefined>');
  }
});
