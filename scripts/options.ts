import { parseArgs } from 'node:util';

/** The command cannot run as it was called. The message is one line that names the option and its value. */
export class UsageError extends Error {}

/** The exit code of a command that was called with a wrong option. */
export const EXIT_USAGE = 2;

/** An option of a command: how `--help` shows it, and how its text becomes a value. */
interface Option<T> {
  /** Stands for the value in the help, such as `N`. Undefined for a flag, which takes no value. */
  readonly placeholder: string | undefined;
  readonly help: string;
  /**
   * @param text undefined where the option is not given; empty for a flag that is given
   * @throws UsageError
   */
  read(name: string, text: string | undefined): T;
}

/** The description of a command, which its `--help` prints. */
interface CommandSpec<T> {
  /** The npm script, such as `bench`. */
  readonly name: string;
  /** What the command does and what its exit code means. */
  readonly about: string;
  readonly options: { readonly [K in keyof T]: Option<T[K]> };
}

/**
 * Returns the options of this process's command line. Prints the help and exits with 0 where `--help` is
 * among them; prints the error and exits with 2 where an option is wrong.
 *
 * @param check throws a {@link UsageError} for options that cannot be combined
 */
export function readOptions<T extends object>(
  spec: CommandSpec<T>,
  check: (values: T) => void = () => {},
): T {
  const args = process.argv.slice(2);
  try {
    const values = parseOptions(spec, args);
    if (values) {
      check(values);
      return values;
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(error.message);
    process.exit(EXIT_USAGE);
  }
  console.log(helpText(spec));
  process.exit(0);
}

/**
 * Returns the value of each option; undefined where `--help` is among the arguments.
 *
 * @throws UsageError
 */
export function parseOptions<T extends object>(
  spec: CommandSpec<T>,
  args: readonly string[],
): T | undefined {
  const entries = Object.entries(spec.options) as [string, Option<unknown>][];
  const kinds: Record<string, OptionKind> = { help: 'flag' };
  for (const [name, { placeholder }] of entries) kinds[name] = placeholder ? 'value' : 'flag';
  const { values, positionals } = parseArguments(args, kinds);
  if (values.has('help')) return undefined;
  if (positionals.length > 0) throw new UsageError(`unexpected argument ${positionals[0]}`);
  return Object.fromEntries(
    entries.map(([name, option]) => [name, option.read(name, values.get(name))]),
  ) as T;
}

export function helpText<T>({ name, about, options }: CommandSpec<T>): string {
  const rows = (Object.entries(options) as [string, Option<unknown>][]).map(
    ([option, { placeholder, help }]) =>
      [`  --${option}${placeholder ? ` ${placeholder}` : ''}`, help] as const,
  );
  rows.push(['  --help', 'print this text']);
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  const lines = rows.map(([left, help]) => left.padEnd(width) + help);
  return [`npm run ${name} -- [options]`, '', about, '', ...lines].join('\n');
}

export type OptionKind = 'value' | 'flag';

/**
 * Splits a command line into options, in their order, and other arguments. The value of a flag is empty.
 * The check is not left to `parseArgs`, whose own error messages have several lines.
 *
 * @throws UsageError for an option that is unknown, is given twice, lacks its value, or is a flag with a value
 */
export function parseArguments<Name extends string>(
  args: readonly string[],
  kinds: Readonly<Record<Name, OptionKind>>,
): { values: Map<Name, string>; positionals: string[] } {
  const options = Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => {
      return [name, { type: kind === 'flag' ? ('boolean' as const) : ('string' as const) }];
    }),
  );
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true });
  const isName = (name: string): name is Name => Object.hasOwn(kinds, name);
  const values = new Map<Name, string>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    if (!isName(name)) throw new UsageError(`unknown option ${rawName}; --help lists the options`);
    if (values.has(name)) {
      throw new UsageError(`${formatOption(name, value ?? '')} is given a second time`);
    }
    const isFlag = kinds[name] === 'flag';
    if (isFlag && value !== undefined) {
      throw new UsageError(`--${name} takes no value, but got ${value}`);
    }
    if (!isFlag && value === undefined) throw new UsageError(`--${name} needs a value`);
    values.set(name, value ?? '');
  }
  return { values, positionals };
}

/** An option as it is written on a command line. */
export function formatOption(name: string, value: string): string {
  return value === '' ? `--${name}` : `--${name} ${value}`;
}

/** The bounds are inclusive. */
export interface NumberRange {
  readonly min: number;
  readonly max: number;
  /** Shown in the help after the range, such as `seconds`. */
  readonly unit?: string;
}

/** An option whose value is a number. Returns `fallback` where it is not given. */
export function numberOption(
  help: string,
  fallback: number,
  { min, max, unit }: NumberRange,
): Option<number> {
  return {
    placeholder: 'N',
    help: `${help} (${min} to ${max}${unit ? ` ${unit}` : ''}, default ${fallback})`,
    read: (name, text) => (text === undefined ? fallback : number(name, text, min, max)),
  };
}

/** An option whose value is a whole number. Without a `fallback` it may be undefined. */
export function wholeNumberOption<F extends number | undefined>(
  help: string,
  fallback: F,
  { min, max, unit }: NumberRange,
): Option<number | F> {
  const range = `${min} to ${max}${unit ? ` ${unit}` : ''}`;
  return {
    placeholder: 'N',
    help: `${help} (${range}${fallback === undefined ? '' : `, default ${fallback}`})`,
    read: (name, text) => (text === undefined ? fallback : wholeNumber(name, text, min, max)),
  };
}

/** An option whose value is one of some words; undefined where it is not given. */
export function choiceOption<T extends string>(
  help: string,
  choices: readonly T[],
): Option<T | undefined> {
  return {
    placeholder: choices.join('|'),
    help,
    read: (name, text) => oneOf(name, text, choices),
  };
}

/**
 * An option whose value is a list, separated by commas.
 *
 * @param fallback as it would be written on the command line
 * @param read returns one element, or throws a {@link UsageError}
 */
export function listOption<T>(
  help: string,
  fallback: string,
  read: (name: string, text: string) => T,
): Option<T[]> {
  return {
    placeholder: 'LIST',
    help: `${help} (default ${fallback})`,
    read: (name, text = fallback) => text.split(',').map((element) => read(name, element)),
  };
}

/** An option with any text as its value; undefined where it is not given. */
export function textOption(
  placeholder: string,
  help: string,
  check: (name: string, text: string) => void = () => {},
): Option<string | undefined> {
  return {
    placeholder,
    help,
    read(name, text) {
      if (text !== undefined) check(name, text);
      return text;
    },
  };
}

export function flagOption(help: string): Option<boolean> {
  return { placeholder: undefined, help, read: (_name, text) => text !== undefined };
}

/** The option that most commands have. */
export const jsonOption = flagOption('print the result as one JSON object');

/** @throws UsageError where the text is not a number from `min` to `max` */
export function number(name: string, text: string, min: number, max: number): number {
  return numeric('a number', Number.isFinite, name, text, min, max);
}

/** @throws UsageError where the text is not a whole number from `min` to `max` */
export function wholeNumber(name: string, text: string, min: number, max: number): number {
  return numeric('a whole number', Number.isInteger, name, text, min, max);
}

/**
 * Returns undefined where the option is not given.
 *
 * @throws UsageError where the text is none of the choices
 */
export function oneOf<T extends string>(
  name: string,
  text: string | undefined,
  choices: readonly T[],
): T | undefined {
  if (text === undefined) return undefined;
  const choice = choices.find((each) => each === text);
  if (choice !== undefined) return choice;
  throw new UsageError(`--${name} must be ${choices.join(' or ')}, but is ${text}`);
}

function numeric(
  kind: string,
  isOne: (value: number) => boolean,
  name: string,
  text: string,
  min: number,
  max: number,
): number {
  const value = Number(text);
  // Number('') is 0.
  if (text.trim() !== '' && isOne(value) && value >= min && value <= max) return value;
  throw new UsageError(`--${name} must be ${kind} from ${min} to ${max}, but is ${text}`);
}
