import ts from 'typescript';
import { code, paragraphsOf, sentencesOf, type Source, table } from './source.js';

/** An option as its page shows it. */
export interface Option {
  readonly name: string;
  /** The declaration, which the types that inherit it share. */
  readonly declaration: ts.Declaration;
  readonly type: string;
  /** Empty if the doc comment states none. */
  readonly unit: string;
  /** Undefined for a required option, empty if the doc comment states none. */
  readonly default: string | undefined;
  readonly text: string;
}

/** Types of options that have another name. */
const EXTRA_OPTION_TYPES = [
  'WarnAfter',
  'RetryPolicy',
  'Auth',
  'Acl',
  'HolderDetails',
  'KeyFromContext',
];
/** The properties that distinguish the members of a union. */
const DISCRIMINANTS = ['type', 'mechanism'];

/** Returns the names of the exported types whose properties are options. */
export function optionTypes({ exports }: Source): string[] {
  return [...exports.keys()].filter(
    (name) =>
      /(Options|Query|Config|Defaults|Extras)$/.test(name) || EXTRA_OPTION_TYPES.includes(name),
  );
}

/** Returns the options of a type, without those of the types in `except`. */
function optionsWithout(source: Source, name: string, except: readonly string[]): Option[] {
  const others = new Set(except.flatMap((type) => optionsOf(source, type)).map(declarationOf));
  return optionsOf(source, name).filter((option) => !others.has(declarationOf(option)));
}

/** Returns the options that are in no table of the page, as `wait of AcquireOptions`. */
export function optionsWithoutTable(source: Source, page: string): string[] {
  const tables = [...page.matchAll(/<!-- generated: options (\w+)(?: except (.+?))? -->/g)];
  const shown = new Set(
    tables
      .flatMap(([, type, except]) => optionsWithout(source, type!, except?.split(' ') ?? []))
      .map(declarationOf),
  );
  return optionTypes(source).flatMap((type) =>
    optionsOf(source, type)
      .filter((option) => !shown.has(declarationOf(option)))
      .map(({ name }) => `${name} of ${type}`),
  );
}

/** Returns the table of the options of a type, without those of the types in `except`. */
export function optionTable(source: Source, name: string, except: readonly string[]): string {
  const { exports } = source;
  return table(
    ['Option', 'Type', 'Default', 'Description'],
    optionsWithout(source, name, except).map((option) => [
      code(option.name),
      option.unit ? `${code(option.type)}, ${option.unit}` : code(option.type),
      option.default === undefined ? 'required' : option.default || 'none',
      option.text
        .replace(/`(\w+Error)`/g, (word, error: string) =>
          exports.has(error) ? `[${word}](errors.md#${error.toLowerCase()})` : word,
        )
        .replace(/`AcquireOptions\.(\w+)`/g, '[`$1`](#acquire)'),
    ]),
  );
}

/** Returns the options of a type, those that it inherits too, except those that other packages declare. */
export function optionsOf(source: Source, name: string): Option[] {
  const { checker, exports } = source;
  const symbol = exports.get(name);
  if (!symbol) throw new Error(`lib/ exports no type ${name}`);
  const type = checker.getDeclaredTypeOfSymbol(symbol);
  // Of a union, the properties of all its members: each has a default of its own.
  const objects = type.isUnion() ? type.types : [type];
  const options = objects.flatMap((object) => {
    const kind = type.isUnion() ? discriminant(checker, object) : undefined;
    return checker
      .getPropertiesOfType(object)
      .filter((property) => !(kind && DISCRIMINANTS.includes(property.name)))
      .filter(({ declarations }) => isOwn(declarations![0]!))
      .map((property) => optionOf(source, property, kind));
  });
  // Members of a union may repeat an option with a narrower type.
  return [
    ...new Map(options.toReversed().map((option) => [option.name, option])).values(),
  ].toReversed();
}

function optionOf(source: Source, property: ts.Symbol, kind: string | undefined): Option {
  const { checker } = source;
  const declaration = property.declarations![0]!;
  const type = typeText(checker, property, declaration);
  const { value, text } = withoutDefault(paragraphsOf(source, property).join(' '));
  const unit = /\bnumber\b/.test(type) && /milliseconds/i.test(text) ? 'milliseconds' : '';
  const optional = (property.flags & ts.SymbolFlags.Optional) !== 0;
  return {
    name: kind ? `${kind}.${property.name}` : property.name,
    declaration,
    type,
    unit,
    default: optional ? value : undefined,
    // The column of the type has the unit.
    text: unit ? text.replace(/,(?: in)? milliseconds(?=\.)/, '') : text,
  };
}

function isOwn(declaration: ts.Declaration): boolean {
  return !declaration.getSourceFile().fileName.includes('/node_modules/');
}

function declarationOf({ declaration }: Option): ts.Declaration {
  return declaration;
}

/** Returns the value of the discriminant in a member of a union. */
function discriminant(checker: ts.TypeChecker, object: ts.Type): string | undefined {
  const property = DISCRIMINANTS.map((name) => object.getProperty(name)).find(Boolean);
  const type = property && checker.getTypeOfSymbol(property);
  return type?.isStringLiteral() ? type.value : undefined;
}

/** Returns the type as it is written, or what an indexed access stands for. */
function typeText(checker: ts.TypeChecker, property: ts.Symbol, declaration: ts.Declaration) {
  const node =
    ts.isPropertySignature(declaration) || ts.isMethodSignature(declaration)
      ? declaration.type
      : undefined;
  const written = node
    ?.getText()
    .replace(/\s+/g, ' ')
    .replace(/ \| undefined$/, '')
    .replace(/^\| /, '');
  if (written && !written.includes('[')) return written.replace(/^\((.*)\)$/, '$1');
  if (written && !/\w\[/.test(written)) return written;
  const type = checker.getNonNullableType(checker.getTypeOfSymbol(property));
  return checker.typeToString(type, undefined, ts.TypeFormatFlags.NoTruncation);
}

/** Separates the default from a doc comment: `Default 5.`, `…; default 5.` or `'throw'`, the default. */
function withoutDefault(text: string): { value: string; text: string } {
  let value = '';
  const rest = sentencesOf(text).flatMap((sentence) => {
    const own = /^Default:? (.+?)\.?$/.exec(sentence);
    const end = /^(.+?)[;,] default:? (.+?)\.?$/.exec(sentence);
    const inside = /(`[^`]+`)(?:, the default,| \(default\))/.exec(sentence);
    value ||= own?.[1] ?? end?.[2] ?? inside?.[1] ?? '';
    if (own) return [];
    return end ? [`${end[1]}.`] : [sentence];
  });
  return { value, text: rest.join(' ') };
}
