// JavaScript with types in comments: scripts/test.mjs needs this file before anything is compiled.
import { parseArgs } from 'node:util';

/** The command cannot run as it was called. The message is one line that names the option and its value. */
export class UsageError extends Error {}

/** The exit code of a command that was called with a wrong option. */
export const EXIT_USAGE = 2;

/**
 * An option of a command: how `--help` shows it, and how its text becomes a value.
 *
 * @template T
 * @typedef {object} Option
 * @property {string | undefined} placeholder stands for the value in the help, such as `N`; undefined for a flag, which takes
 *   no value
 * @property {string} help
 * @property {boolean} [isOperands] whether the value is the arguments that are not options
 * @property {(name: string, text: string | undefined, operands: string[]) => T} read `text` is undefined where the option is
 *   not given, and empty for a flag that is given; throws a UsageError
 */

/**
 * The description of a command, which its `--help` prints.
 *
 * @template T
 * @typedef {object} CommandSpec
 * @property {string} name the npm script, such as `bench`
 * @property {string} about what the command does and what its exit code means
 * @property {{ readonly [K in keyof T]: Option<T[K]> }} options
 */

/**
 * Returns the options of this process's command line. Prints the help and exits with 0 where `--help` is
 * among them; prints the error and exits with 2 where an option is wrong.
 *
 * @template {object} T
 * @param {CommandSpec<T>} spec
 * @param {(values: T) => void} check throws a {@link UsageError} for options that cannot be combined
 * @returns {T}
 */
export function readOptions(spec, check = () => {}) {
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
 * @template {object} T
 * @param {CommandSpec<T>} spec
 * @param {readonly string[]} args
 * @returns {T | undefined}
 * @throws UsageError
 */
function parseOptions(spec, args) {
  /** @type {[string, Option<unknown>][]} */
  const entries = Object.entries(spec.options);
  /** @type {Record<string, OptionKind>} */
  const kinds = { help: 'flag' };
  for (const [name, { placeholder, isOperands }] of entries) {
    if (!isOperands) kinds[name] = placeholder ? 'value' : 'flag';
  }
  const { values, positionals } = parseArguments(args, kinds);
  if (values.has('help')) return undefined;
  if (positionals.length > 0 && !entries.some(([, { isOperands }]) => isOperands)) {
    throw new UsageError(`unexpected argument ${positionals[0]}`);
  }
  return /** @type {T} */ (
    Object.fromEntries(
      entries.map(([name, option]) => [name, option.read(name, values.get(name), positionals)]),
    )
  );
}

/**
 * @template T
 * @param {CommandSpec<T>} spec
 */
function helpText({ name, about, options }) {
  /** @type {[string, Option<unknown>][]} */
  const entries = Object.entries(options);
  const rows = entries.map(([option, { placeholder, help, isOperands }]) => {
    if (isOperands) return [`  ${placeholder}`, help];
    return [`  --${option}${placeholder ? ` ${placeholder}` : ''}`, help];
  });
  rows.push(['  --help', 'print this text']);
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  const lines = rows.map(([left, help]) => left.padEnd(width) + help);
  const operands = entries.flatMap(([, { isOperands, placeholder }]) =>
    isOperands ? ` [${placeholder}]` : [],
  );
  return [`npm run ${name} -- [options]${operands.join('')}`, '', about, '', ...lines].join('\n');
}

/** @typedef {'value' | 'flag'} OptionKind */

/**
 * Splits a command line into options, in their order, and other arguments. The value of a flag is empty.
 * The check is not left to `parseArgs`, whose own error messages have several lines.
 *
 * @template {string} Name
 * @param {readonly string[]} args
 * @param {Readonly<Record<Name, OptionKind>>} kinds
 * @throws UsageError for an option that is unknown, is given twice, lacks its value, or is a flag with a value
 */
export function parseArguments(args, kinds) {
  const options = Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => {
      return [
        name,
        { type: /** @type {'boolean' | 'string'} */ (kind === 'flag' ? 'boolean' : 'string') },
      ];
    }),
  );
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true });
  /** @type {(name: string) => name is Name} */
  const isName = (name) => Object.hasOwn(kinds, name);
  /** @type {Map<Name, string>} */
  const values = new Map();
  /** @type {string[]} */
  const positionals = [];
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

/**
 * An option as it is written on a command line.
 *
 * @param {string} name
 * @param {string} value
 */
export function formatOption(name, value) {
  return value === '' ? `--${name}` : `--${name} ${value}`;
}

/**
 * The bounds are inclusive. The help shows the unit, such as `seconds`, after the range.
 *
 * @typedef {{ readonly min: number, readonly max: number, readonly unit?: string }} NumberRange
 */

/**
 * An option whose value is a number. Returns `fallback` where it is not given.
 *
 * @param {string} help
 * @param {number} fallback
 * @param {NumberRange} range
 * @returns {Option<number>}
 */
export function numberOption(help, fallback, { min, max, unit }) {
  return {
    placeholder: 'N',
    help: `${help} (${min} to ${max}${unit ? ` ${unit}` : ''}, default ${fallback})`,
    read: (name, text) => (text === undefined ? fallback : number(name, text, min, max)),
  };
}

/**
 * An option whose value is a whole number. Without a `fallback` it may be undefined.
 *
 * @template {number | undefined} F
 * @param {string} help
 * @param {F} fallback
 * @param {NumberRange} range
 * @returns {Option<number | F>}
 */
export function wholeNumberOption(help, fallback, { min, max, unit }) {
  const range = `${min} to ${max}${unit ? ` ${unit}` : ''}`;
  return {
    placeholder: 'N',
    help: `${help} (${range}${fallback === undefined ? '' : `, default ${fallback}`})`,
    read: (name, text) => (text === undefined ? fallback : wholeNumber(name, text, min, max)),
  };
}

/**
 * An option whose value is one of some words; undefined where it is not given.
 *
 * @template {string} T
 * @param {string} help
 * @param {readonly T[]} choices
 * @returns {Option<T | undefined>}
 */
export function choiceOption(help, choices) {
  return {
    placeholder: choices.join('|'),
    help,
    read: (name, text) => oneOf(name, text, choices),
  };
}

/**
 * An option whose value is a list, separated by commas.
 *
 * @template T
 * @param {string} help
 * @param {string} fallback as it would be written on the command line
 * @param {(name: string, text: string) => T} read returns one element, or throws a {@link UsageError}
 * @returns {Option<T[]>}
 */
export function listOption(help, fallback, read) {
  return {
    placeholder: 'LIST',
    help: `${help} (default ${fallback})`,
    read: (name, text = fallback) => text.split(',').map((element) => read(name, element)),
  };
}

/**
 * An option with any text as its value; undefined where it is not given.
 *
 * @param {string} placeholder
 * @param {string} help
 * @param {(name: string, text: string) => void} check throws a {@link UsageError}
 * @returns {Option<string | undefined>}
 */
export function textOption(placeholder, help, check = () => {}) {
  return {
    placeholder,
    help,
    read(name, text) {
      if (text !== undefined) check(name, text);
      return text;
    },
  };
}

/**
 * @param {string} help
 * @returns {Option<boolean>}
 */
export function flagOption(help) {
  return { placeholder: undefined, help, read: (_name, text) => text !== undefined };
}

/**
 * The arguments that are not options.
 *
 * @param {string} placeholder
 * @param {string} help
 * @returns {Option<string[]>}
 */
export function operands(placeholder, help) {
  return { placeholder, help, isOperands: true, read: (_name, _text, operands) => operands };
}

/** The option that most commands have. */
export const jsonOption = flagOption('print the result as one JSON object');

/**
 * @param {string} name
 * @param {string} text
 * @param {number} min
 * @param {number} max
 * @throws UsageError where the text is not a number from `min` to `max`
 */
export function number(name, text, min, max) {
  return numeric('a number', Number.isFinite, name, text, min, max);
}

/**
 * @param {string} name
 * @param {string} text
 * @param {number} min
 * @param {number} max
 * @throws UsageError where the text is not a whole number from `min` to `max`
 */
export function wholeNumber(name, text, min, max) {
  return numeric('a whole number', Number.isInteger, name, text, min, max);
}

/**
 * Returns undefined where the option is not given.
 *
 * @template {string} T
 * @param {string} name
 * @param {string | undefined} text
 * @param {readonly T[]} choices
 * @throws UsageError where the text is none of the choices
 */
function oneOf(name, text, choices) {
  if (text === undefined) return undefined;
  const choice = choices.find((each) => each === text);
  if (choice !== undefined) return choice;
  throw new UsageError(`--${name} must be ${choices.join(' or ')}, but is ${text}`);
}

/**
 * @param {string} kind
 * @param {(value: number) => boolean} isOne
 * @param {string} name
 * @param {string} text
 * @param {number} min
 * @param {number} max
 */
function numeric(kind, isOne, name, text, min, max) {
  const value = Number(text);
  // Number('') is 0.
  if (text.trim() !== '' && isOne(value) && value >= min && value <= max) return value;
  throw new UsageError(`--${name} must be ${kind} from ${min} to ${max}, but is ${text}`);
}
