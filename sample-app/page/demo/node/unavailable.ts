/*
 * Functions for real files, sockets and threads, which the simulation does not call.
 */

export function unavailable(): never {
  throw new Error('this function does not exist in a browser');
}

export class Socket {
  write = unavailable;
}

export class Worker {
  postMessage = unavailable;
}

/** Simulated servers have IPv4 addresses. */
export const isIP = (host: string) => (/^[\d.]+$/.test(host) ? 4 : 0);
export const isIPv6 = () => false;
export const constants = {};
export const basename = (path: string) => path.slice(path.lastIndexOf('/') + 1);
export const { performance } = globalThis;

export {
  unavailable as accessSync,
  unavailable as connect,
  unavailable as createSecureContext,
  unavailable as dirname,
  unavailable as join,
  unavailable as lookup,
  unavailable as once,
  unavailable as readFileSync,
  unavailable as readlinkSync,
  unavailable as realpathSync,
  unavailable as renameSync,
  unavailable as resolve,
  unavailable as rmSync,
  unavailable as statSync,
  unavailable as writeFileSync,
};
