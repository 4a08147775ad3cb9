/** A session's id as clients and logs write it, hexadecimal, as the number on the wire. */
export function parseSessionId(id: string): bigint {
  const digits = typeof id === 'string' ? /^(?:0x)?([0-9a-f]{1,16})$/i.exec(id)?.[1] : undefined;
  if (!digits) {
    throw new TypeError(`EmbeddedZooKeeper: a session id in hexadecimal is wanted, got ${id}`);
  }
  return BigInt.asIntN(64, BigInt(`0x${digits}`));
}
