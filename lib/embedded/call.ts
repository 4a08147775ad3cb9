import type { Reader, Writer } from '../protocol/index.js';
import type { Caller, DataTree, Transaction } from './data-tree.js';
import type { Watcher } from './watches.js';

/** The caller of an operation and the tree that it works on. */
export interface Call {
  readonly tree: DataTree;
  readonly caller: Caller;
  readonly watcher: Watcher;
}

/** Writes the body of a reply, after its header. */
export type Reply = (to: Writer) => void;

export type Operation =
  | { readonly kind: 'read'; run(call: Call, body: Reader): Reply }
  | { readonly kind: 'write'; run(call: Call, body: Reader, at: Transaction): Reply };
