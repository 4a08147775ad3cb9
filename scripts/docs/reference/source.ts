import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import ts from 'typescript';
import { root } from '../../packed.mjs';

/** The library's source, as the compiler sees it. */
export interface Source {
  readonly checker: ts.TypeChecker;
  /** The files of lib/. */
  readonly files: readonly ts.SourceFile[];
  /** What the entry points export, and the types of the options that callers pass to it, by name. */
  readonly exports: ReadonlyMap<string, ts.Symbol>;
}

/** Files of packages, which do not change. */
const parsed = new Map<string, ts.SourceFile | undefined>();

/**
 * Compiles lib/ without output.
 *
 * @param change returns the text to use for a file. Tests change the source with it
 */
export function readSource(change = (_file: string, text: string) => text): Source {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  const { entryPoints } = JSON.parse(readFileSync(join(root, 'typedoc.json'), 'utf8')) as {
    entryPoints: string[];
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, readFile } = host;
  host.getSourceFile = (file, ...rest) => {
    if (!file.includes('/node_modules/')) return getSourceFile(file, ...rest);
    if (!parsed.has(file)) parsed.set(file, getSourceFile(file, ...rest));
    return parsed.get(file);
  };
  host.readFile = (file) => {
    const text = readFile(file);
    return text === undefined ? undefined : change(relative(root, file), text);
  };
  const program = ts.createProgram(
    entryPoints.map((file) => join(root, file)),
    options,
    host,
  );
  const checker = program.getTypeChecker();
  const lib = join(root, 'lib');
  const files = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(`${lib}/`));
  const exports = publicTypes(checker, files);
  for (const file of entryPoints) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(join(root, file))!)!;
    for (const symbol of checker.getExportsOfModule(module)) {
      exports.set(symbol.name, original(checker, symbol));
    }
  }
  return { checker, files, exports };
}

/** Returns the types with the tag `@publicApi`, by name. Entry points do not export those that callers need not name. */
function publicTypes(checker: ts.TypeChecker, files: readonly ts.SourceFile[]) {
  const types = files
    .flatMap(({ statements }) => [...statements])
    .filter((one) => ts.isInterfaceDeclaration(one) || ts.isTypeAliasDeclaration(one))
    .filter((one) => ts.getJSDocTags(one).some(({ tagName }) => tagName.text === 'publicApi'));
  return new Map(types.map(({ name }) => [name.text, checker.getSymbolAtLocation(name)!]));
}

/** Returns the symbol that an export or import stands for. */
export function original(checker: ts.TypeChecker, symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** Calls the visitor with the node and all nodes below it. */
export function visitNodes(node: ts.Node, visitor: (node: ts.Node) => void): void {
  visitor(node);
  ts.forEachChild(node, (child) => visitNodes(child, visitor));
}

/** Returns the members of a type such as `'lock' | 'semaphore'`; none of another type. */
export function literalsOf(type: ts.Type): string[] {
  const types = type.isUnion() ? type.types : [type];
  return types.every((one) => one.isStringLiteral()) ? types.map(({ value }) => value) : [];
}

/** Returns the paragraphs of a doc comment, without line breaks, as Markdown. */
export function paragraphsOf({ checker }: Source, symbol: ts.Symbol): string[] {
  const text = ts.displayPartsToString(symbol.getDocumentationComment(checker));
  return text
    .replace(/\{@link ([^}]+?) ?\}/g, '`$1`')
    .split(/\n\s*\n|\n(?=[A-Z][a-z]+: )/)
    .map((paragraph) => paragraph.replace(/\s*\n\s*/g, ' ').trim())
    .filter(Boolean);
}

/** Splits a paragraph at the ends of its sentences, but not inside of code. */
export function sentencesOf(paragraph: string): string[] {
  return paragraph.match(/(?:`[^`]*`|[^`])+?(?:\.(?= [A-Z`'“]|$)|$)/g)?.map((s) => s.trim()) ?? [];
}

/** Returns a Markdown table. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(headings), line(headings.map(() => '---')), ...rows.map(line)].join('\n');
}

export function code(text: string): string {
  return text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``;
}
