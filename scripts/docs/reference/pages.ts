import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { root } from '../../packed.mjs';
import { errorSections, errorTable } from './errors.js';
import { logLines, logPageProblems } from './log.js';
import { channelTable, metricTable, telemetryNames } from './metrics.js';
import { optionsOf, optionsWithoutTable, optionTable, optionTypes } from './options.js';
import { code, readSource, type Source } from './source.js';

/** The comments around generated text: `<!-- generated: options LockOptions except LeaseOptions -->` … `<!-- end -->`. */
const BLOCK = /(<!-- generated: ([\w-]+)(.*?) -->\n).*?(<!-- end -->)/gs;

type Generator = (source: Source, ...args: string[]) => string;

const GENERATORS: Readonly<Record<string, Generator>> = {
  options: (source, type, _except, ...others) => optionTable(source, type!, others),
  'error-table': errorTable,
  errors: errorSections,
  metrics: metricTable,
  channels: channelTable,
};

/** A page of docs/reference/, with the text that it has and the text that it should have. */
export interface ReferencePage {
  readonly file: string;
  readonly text: string;
  readonly generated: string;
}

/** Generates the tables of docs/reference/ from lib/. */
export async function referencePages(source = readSource()): Promise<ReferencePage[]> {
  const directory = join(root, 'docs/reference');
  const pages = readdirSync(directory).map(async (name) => {
    const file = join(directory, name);
    const text = readFileSync(file, 'utf8');
    const whole = text.replace(
      BLOCK,
      (_, begin: string, kind: string, args: string, end: string) => {
        const generator = GENERATORS[kind];
        if (!generator) throw new Error(`${file}: nothing generates ${kind}`);
        return `${begin}\n${generator(source, ...args.trim().split(' '))}\n\n${end}`;
      },
    );
    const generated = await format(whole, { ...(await resolveConfig(file)), filepath: file });
    return { file, text, generated };
  });
  return Promise.all(pages);
}

/**
 * Compares docs/reference/ with lib/: the tables that are generated, and the log lines, options, metrics and attributes
 * that pages name.
 */
export async function referenceProblems(source = readSource()): Promise<string[]> {
  const pages = await referencePages(source);
  const textOf = (name: string) => pages.find(({ file }) => file.endsWith(`/${name}.md`))!.text;
  return [
    ...pages
      .filter(({ text, generated }) => text !== generated)
      .map(({ file }) => `${relative(root, file)} is out of date: run npm run docs:reference`),
    ...optionsWithoutTable(source, textOf('options')).map(
      (option) => `docs/reference/options.md has no table with ${option}`,
    ),
    ...incompleteComments(source),
    ...logPageProblems(logLines(source), textOf('troubleshooting')).map(
      (problem) => `docs/reference/troubleshooting.md: ${problem}`,
    ),
    ...[...telemetryNames(source)]
      .filter((name) => !textOf('metrics').includes(code(name)))
      .map((name) => `docs/reference/metrics.md does not name ${name}`),
  ];
}

/** Returns the options whose doc comments lack their meaning, their default or their unit. */
function incompleteComments(source: Source): string[] {
  return optionTypes(source).flatMap((type) =>
    optionsOf(source, type).flatMap((option) => {
      const { name, text, unit } = option;
      const isNumber = option.type === 'number' && !unit && !/number|rate/.test(text);
      return [
        ...(text ? [] : ['its meaning']),
        ...(option.default === '' ? ['its default'] : []),
        ...(isNumber ? ['its unit'] : []),
      ].map((missing) => `the doc comment of ${type}.${name} does not state ${missing}`);
    }),
  );
}
