import type { Reader, Writer } from '../protocol/index.js';
import type { Caller, DataTree, Transaction } from './data-tree.js';
import type { Watcher } from './watches.js';

/** Who asks, and of what. */
export interface Call {
  readonly tree: DataTree;
  readonly caller: Caller;
  readonly watcher: Watcher;
}

/** Writes the reply's body, once the header may go before it. */
export type Reply = (to: Writer) => void;

export type Operation =
  | { readonly kind: 'read'; run(call: Call, body: Reader): Reply }
  | { readonly kind: 'write'; run(call: Call, body: Reader, at: Transaction): Reply };
