import type { ZkClient } from '../../client/index.js';
import { parseSessionId } from '../../embedded/options.js';
import { checkString, formatValue } from './options.js';
import { toHex } from './simulated-znode.js';

/**
 * Checks the name of a new process.
 *
 * @throws TypeError if it is empty or reserved
 */
export function checkProcessName(name: string, reserved: readonly string[]): void {
  checkString('the name of a process', name);
  if (name === '') throw new TypeError('simulate: the name of a process must not be empty');
  if (reserved.includes(name)) {
    throw new TypeError(
      `simulate: the name ${formatValue(name)} is reserved for the simulation; choose another name`,
    );
  }
}

/**
 * Returns the session of a client as hexadecimal text and as a number.
 *
 * @param client the client, or the id of its session in hexadecimal
 * @param method the method that takes the client
 * @throws Error if the client has no session; TypeError if `client` is neither a client nor an id
 */
export function sessionOf(
  client: ZkClient | string,
  method: string,
): { session: string; id: bigint } {
  const session: unknown = typeof client === 'string' ? client : client?.sessionId;
  if (session === undefined && client instanceof Object && 'sessionId' in client) {
    throw new Error(
      `simulate: the client of ${method}() has no session, because it is closed or not yet connected`,
    );
  }
  if (typeof session !== 'string' || !/^(0x)?[\da-f]{1,16}$/i.test(session)) {
    throw new TypeError(
      `simulate: the client of ${method}() must be a ZkClient or the id of a session in hexadecimal, got ${formatValue(client)}`,
    );
  }
  const id = parseSessionId(session);
  return { id, session: `0x${toHex(id)}` };
}
