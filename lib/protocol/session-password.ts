/** The constants of Java's `Random`, a linear congruential generator of 48 bits. */
const MULTIPLIER = 0x5deece66dn;
const INCREMENT = 0xbn;
const BITS = 48;
/** ZooKeeper's constant. It is public, so the password proves nothing about the client. */
const SECRET = 0xb3415c00n;

/**
 * Returns the password that Apache ZooKeeper gives to a session: 16 bytes of Java's `Random`, whose seed is made of the
 * session id (`ZooKeeperServer.generatePasswd`).
 */
export function sessionPassword(id: bigint): Buffer {
  const password = Buffer.alloc(16);
  let seed = BigInt.asUintN(BITS, id ^ SECRET ^ MULTIPLIER);
  for (let offset = 0; offset < password.length; offset += 4) {
    seed = BigInt.asUintN(BITS, seed * MULTIPLIER + INCREMENT);
    password.writeUInt32LE(Number(seed >> 16n), offset);
  }
  return password;
}
