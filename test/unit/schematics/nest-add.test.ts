import { fileURLToPath } from 'node:url';
import { Tree } from '@angular-devkit/schematics';
import { SchematicTestRunner } from '@angular-devkit/schematics/testing/index.js';
import { describe, expect, it } from 'vitest';

const COLLECTION = fileURLToPath(new URL('../../../schematics/collection.json', import.meta.url));
const ADDED = 'ZkModule.forRoot({ connectString: process.env.ZK_CONNECT_STRING })';

const GENERATED = `import { Module } from '@nestjs/common';
import { AppController } from './app.controller.js';

@Module({
  imports: [],
  controllers: [AppController],
})
export class AppModule {}
`;

async function run(files: Record<string, string>, sourceRoot = 'src') {
  const runner = new SchematicTestRunner('nestjs-zookeeper', COLLECTION);
  const said: string[] = [];
  runner.logger.subscribe(({ message }) => void said.push(message));
  const before = Tree.empty();
  for (const [file, text] of Object.entries(files)) before.create(file, text);
  const tree = await runner.runSchematic('nest-add', { sourceRoot }, before);
  return { tree, said: said.join('\n') };
}

async function add(source: string | undefined, sourceRoot = 'src') {
  const file = `${sourceRoot}/app.module.ts`;
  const { tree, said } = await run(source === undefined ? {} : { [file]: source }, sourceRoot);
  return { source: source && tree.readContent(file), said };
}

const MAIN = `import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  await app.listen(process.env.PORT ?? 3000);
}
void bootstrap();
`;

/** Runs the schematic on a main.ts, and returns what it becomes. */
async function addTo(main: string) {
  const { tree, said } = await run({ 'src/app.module.ts': GENERATED, 'src/main.ts': main });
  return { main: tree.readContent('src/main.ts'), said };
}

describe('nest add nestjs-zookeeper', () => {
  it.each([
    ['const app = await NestFactory.create(AppModule);', 'app'],
    ['const app = await NestFactory.create(AppModule)', 'app'],
    [
      'const server = await NestFactory.create<NestFastifyApplication>(\n    AppModule,\n    new FastifyAdapter({ trustProxy: f() }),\n  );',
      'server',
    ],
    [
      'let app = await NestFactory.createApplicationContext(AppModule, { bufferLogs: true });',
      'app',
    ],
  ])('enables the shutdown hooks after %j', async (statement, app) => {
    const before = MAIN.replace('const app = await NestFactory.create(AppModule);', statement);
    const { main, said } = await addTo(before);
    expect(main).toBe(before.replace(statement, `${statement}\n  ${app}.enableShutdownHooks();`));
    expect(said).not.toContain('main.ts');
    expect((await addTo(main)).main).toBe(main);
  });

  it.each([
    'void run();\n',
    MAIN.replace('(AppModule);', '(AppModule).then((app) => app);'),
    MAIN.replace('(AppModule);', '(AppModule'),
    MAIN + MAIN.replace('bootstrap', 'other'),
    'NestFactory.create(AppModule).then((app) => app.listen(3000));\n',
  ])('does not change another main.ts, and says what to call: %#', async (before) => {
    const { main, said } = await addTo(before);
    expect(main).toBe(before);
    expect(said).toContain('src/main.ts was not changed. Call app.enableShutdownHooks()');
  });

  it("imports the module into a generated application's root module", async () => {
    const { source, said } = await add(GENERATED);
    expect(source).toBe(
      GENERATED.replace(
        "app.controller.js';\n",
        "app.controller.js';\nimport { ZkModule } from 'nestjs-zookeeper';\n",
      ).replace('imports: []', `imports: [${ADDED}]`),
    );
    expect(said).toContain('embedded: true');
    // It changes nothing when it runs again, and uses the module of the selected project.
    expect((await add(source)).source).toBe(source);
    expect((await add(GENERATED, 'apps/shop/src')).source).toBe(source);
  });

  it.each([
    ['imports: [ConfigModule.forRoot()],', `imports: [${ADDED}, ConfigModule.forRoot()],`],
    ['imports: [\n    A,\n    B,\n  ],', `imports: [\n    ${ADDED},\n    A,\n    B,\n  ],`],
    ['providers: [], imports: [A],', `providers: [], imports: [${ADDED}, A],`],
    ['imports: [\n  ],', `imports: [${ADDED}\n  ],`],
  ])('keeps existing imports: %j', async (before, after) => {
    const { source } = await add(GENERATED.replace('imports: [],', before));
    expect(source).toContain(after);
  });

  it('adds imports to a module without imports', async () => {
    const { source } = await add('@Module({ providers: [] })\nexport class AppModule {}\n');
    expect(source).toContain(`@Module({\n  imports: [${ADDED}], providers: [] })`);
    expect(source).toMatch(/^import \{ ZkModule \}/);
  });

  it.each([
    undefined,
    'export const nothing = 1;\n',
    GENERATED.replace('imports: []', 'imports'),
    GENERATED.replace('imports: []', 'imports: common'),
    GENERATED.replace('  imports: [],\n', '').replace(
      '[AppController],',
      '[AppController], imports',
    ),
  ])('says what to do if it finds no place for the import: %j', async (before) => {
    const { source, said } = await add(before);
    expect(source).toBe(before);
    expect(said).toContain(ADDED);
  });
});
