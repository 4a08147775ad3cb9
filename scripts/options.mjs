import { parseArgs } from 'node:util';

/** What `check` makes of a command's options. Where they are not right it says why, and exits with 2. */
export function optionsOf(options, check) {
  try {
    return check(parseArgs({ options }).values);
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
}

/** @throws Error that names the option */
export function number(name, text, least, most) {
  return numeric('a number', Number.isFinite, name, text, least, most);
}

/** @throws Error that names the option */
export function wholeNumber(name, text, least, most) {
  return numeric('a whole number', Number.isInteger, name, text, least, most);
}

/** Undefined where the option is not given. @throws Error that names the option */
export function oneOf(name, text, choices) {
  if (text === undefined || choices.includes(text)) return text;
  throw new Error(`--${name} must be ${choices.join(' or ')}, but is ${text}`);
}

function numeric(kind, isOne, name, text, least, most) {
  const value = Number(text);
  // An empty one would be 0.
  if (text.trim() !== '' && isOne(value) && value >= least && value <= most) return value;
  throw new Error(`--${name} must be ${kind} from ${least} to ${most}, but is ${text}`);
}
