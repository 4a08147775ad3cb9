/**
 * Returns JSON in one line. Other clients write a part of it, so characters that could change what a terminal shows are
 * escaped: control characters, invisible ones and line separators.
 */
export function toJson(value: unknown): string {
  return JSON.stringify(value).replace(/[\p{C}\p{Zl}\p{Zp}\p{DI}]/gu, escaped);
}

/** A character beyond U+FFFF has two code units. */
function escaped(character: string): string {
  return Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`,
  ).join('');
}
