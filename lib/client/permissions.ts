const BITS: Readonly<Record<string, number>> = { r: 1, w: 2, c: 4, d: 8, a: 16 };

/** The permissions of an ACL entry, as they travel. */
export function permissionBits(letters: string): number {
  let bits = 0;
  for (const letter of letters) bits |= BITS[letter] ?? 0;
  return bits;
}
