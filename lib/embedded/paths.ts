import { ErrorCode } from '../protocol/index.js';
import { KeeperError } from './keeper-error.js';

// What ZooKeeper forbids: control characters, surrogates and private use, and the specials at the end
// of the basic plane. Surrogates are how Java sees every character beyond that plane.
// oxlint-disable-next-line no-control-regex
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/;
const RELATIVE_OR_EMPTY = /\/(?:\.{0,2})(?:\/|$)/;

export function validatePath(path: string): void {
  if (path === '/') return;
  if (path[0] !== '/' || FORBIDDEN.test(path) || RELATIVE_OR_EMPTY.test(path)) {
    throw new KeeperError(ErrorCode.badArguments);
  }
}

/** The parent's path; empty for a child of the root, which the tree knows by that name too. */
export function parentOf(path: string): string {
  const slash = path.lastIndexOf('/');
  if (slash === -1 || path.includes('\0')) throw new KeeperError(ErrorCode.badArguments);
  return path.slice(0, slash);
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
