import { fileURLToPath } from 'node:url';
import { Tree } from '@angular-devkit/schematics';
import { SchematicTestRunner } from '@angular-devkit/schematics/testing/index.js';
import { describe, expect, it } from 'vitest';

const COLLECTION = fileURLToPath(new URL('../../../schematics/collection.json', import.meta.url));
const ADDED =
  "ZkModule.forRoot({ connectString: process.env.ZK_CONNECT_STRING ?? 'localhost:2181' })";

const GENERATED = `import { Module } from '@nestjs/common';
import { AppController } from './app.controller.js';

@Module({
  imports: [],
  controllers: [AppController],
})
export class AppModule {}
`;

async function add(source: string | undefined, sourceRoot = 'src') {
  const runner = new SchematicTestRunner('nestjs-zookeeper', COLLECTION);
  const said: string[] = [];
  runner.logger.subscribe(({ message }) => void said.push(message));
  const tree = Tree.empty();
  const file = `${sourceRoot}/app.module.ts`;
  if (source !== undefined) tree.create(file, source);
  const result = await runner.runSchematic('nest-add', { sourceRoot }, tree);
  return { source: source && result.readContent(file), said: said.join('\n') };
}

describe('nest add nestjs-zookeeper', () => {
  it("imports the module into a generated application's root module", async () => {
    const { source, said } = await add(GENERATED);
    expect(source).toBe(
      GENERATED.replace(
        "app.controller.js';\n",
        "app.controller.js';\nimport { ZkModule } from 'nestjs-zookeeper';\n",
      ).replace('imports: []', `imports: [${ADDED}]`),
    );
    expect(said).toContain('embedded: true');
  });

  it('changes nothing when it runs again', async () => {
    const { source } = await add(GENERATED);
    expect((await add(source)).source).toBe(source);
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

  it('uses the module of the selected project', async () => {
    expect((await add(GENERATED, 'apps/shop/src')).source).toContain(ADDED);
  });

  it.each([undefined, 'export const nothing = 1;\n'])(
    'says what to do if it finds no place for the import: %j',
    async (before) => {
      const { source, said } = await add(before);
      expect(source).toBe(before);
      expect(said).toContain(ADDED);
    },
  );
});
