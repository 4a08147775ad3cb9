import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/**
 * The parts of lib/, and the parts that the files of each may import. An import of a type counts as an import.
 * The chain is module → decorators → services → recipes → kernel → client → protocol.
 */
const MAY_IMPORT = {
  protocol: [],
  client: ['protocol'],
  vocabulary: ['client'],
  diagnostics: ['vocabulary', 'client'],
  kernel: ['diagnostics', 'vocabulary', 'client'],
  recipes: ['kernel', 'diagnostics', 'vocabulary', 'client'],
  services: ['recipes', 'kernel', 'diagnostics', 'vocabulary', 'client'],
  tokens: ['services', 'client'],
  decorators: ['tokens', 'services', 'recipes', 'kernel', 'vocabulary', 'client'],
  embedded: ['protocol'],
  'coordination recipes': ['recipes', 'kernel', 'diagnostics', 'vocabulary', 'client'],
  coordination: [
    'coordination recipes',
    'kernel',
    'tokens',
    'decorators',
    'services',
    'recipes',
    'diagnostics',
    'vocabulary',
    'client',
  ],
  module: ['tokens', 'decorators', 'services', 'recipes', 'diagnostics', 'client', 'embedded'],
  index: ['module', 'tokens', 'decorators', 'services', 'recipes', 'client'],
  cli: [
    'coordination recipes',
    'fence',
    'services',
    'recipes',
    'kernel',
    'vocabulary',
    'client',
    'embedded',
  ],
  terminus: ['tokens', 'services', 'client'],
  schedule: ['decorators', 'services', 'client'],
  fence: ['kernel', 'vocabulary', 'client'],
  opentelemetry: ['diagnostics', 'client'],
  testing: [
    'module',
    'tokens',
    'services',
    'recipes',
    'kernel',
    'vocabulary',
    'client',
    'embedded',
    'protocol',
  ],
} as const satisfies Record<string, readonly string[]>;
type Part = keyof typeof MAY_IMPORT;

/** The types and errors that all recipes and mechanisms speak of. */
const VOCABULARY = /^kernel\/(errors|types|lease|term)\.ts$/;

function partOf(file: string): Part {
  if (file === 'index.ts') return 'index';
  if (file === 'zk.tokens.ts') return 'tokens';
  if (/^zk\.\w+\.ts$/.test(file)) return 'module';
  if (VOCABULARY.test(file)) return 'vocabulary';
  if (file.startsWith('coordination/recipes/')) return 'coordination recipes';
  if (file === 'kernel/diagnostics.ts') return 'diagnostics';
  const folder = file.split('/')[0]!;
  if (!(folder in MAY_IMPORT)) throw new Error(`lib/${file}: name its folder in MAY_IMPORT`);
  return folder as Part;
}

/** The files below a folder of the repository, each with the files there that it imports, types included. */
function importsBelow(folder: string): Map<string, string[]> {
  const root = join(ROOT, folder);
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /\.(ts|tsx|mjs)$/.test(file) && !file.endsWith('.d.ts'))
    .sort();
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const { importedFiles } = ts.preProcessFile(
        readFileSync(join(root, file), 'utf8'),
        true,
        true,
      );
      const targets = importedFiles
        .filter(({ fileName }) => fileName.startsWith('.'))
        .map(({ fileName }) => relative(root, resolve(root, dirname(file), fileName)))
        .map((target) => target.replaceAll('\\', '/'))
        .flatMap((target) =>
          [target, ...['.ts', '.tsx'].map((ending) => target.replace(/\.js$/, ending))].filter(
            (each) => known.has(each),
          ),
        );
      return [file, [...new Set(targets)]];
    }),
  );
}

const lib = importsBelow('lib');

/** The files that import themselves through others. */
function circular(graph: ReadonlyMap<string, readonly string[]>): string[] {
  return [...graph.keys()].filter((file) => {
    const reached = new Set<string>();
    const visit = (from: string): void => {
      for (const target of graph.get(from) ?? []) {
        if (reached.has(target)) continue;
        reached.add(target);
        visit(target);
      }
    };
    visit(file);
    return reached.has(file);
  });
}

/** Folders that stand on the core, and the folders of the core that they import only through its index. */
const ROOMS = /^(cli|coordination|embedded|testing)\//;
const SEALED = /^(client|kernel|recipes)\/(?!index\.ts$)/;

describe('the files of lib/', () => {
  it('import the client, the kernel and the recipes only through their index, outside of the core', () => {
    const inside = [...lib].flatMap(([file, targets]) =>
      ROOMS.test(file) ? targets.filter((target) => SEALED.test(target)) : [],
    );
    expect(inside).toEqual([]);
  });

  it('import only the parts that MAY_IMPORT allows', () => {
    const wrong = [...lib].flatMap(([file, targets]) =>
      targets
        .filter((target) => {
          const [from, to] = [partOf(file), partOf(target)];
          return from !== to && !(MAY_IMPORT[from] as readonly Part[]).includes(to);
        })
        .map((target) => `lib/${file} imports lib/${target}`),
    );
    expect(wrong).toEqual([]);
    // Proof that imports are found.
    expect(lib.get('zk.module.ts')).toContain('zk.connection.ts');
    expect(circular(new Map([...lib, ['zk.connection.ts', ['zk.module.ts']]]))).not.toEqual([]);
  });
});

it.each(['lib', 'sample-app', 'examples', 'scripts'])(
  'the files of %s import no other in a circle',
  (folder) => {
    expect(circular(importsBelow(folder))).toEqual([]);
  },
);
