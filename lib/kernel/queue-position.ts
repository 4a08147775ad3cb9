import type { Session } from '../client/index.js';
import type { NodeData } from './node-data.js';

/** The znodes that give the right to a lock. The session that created them owns them. */
export interface QueuePosition {
  readonly session: Session;
  readonly nodes: readonly string[];
  /**
   * The fencing tokens start from it. A transaction after the end of each earlier holder; for a strict caller that continues the
   * tokens of the holder before it, a transaction before that hold.
   */
  readonly zxid: number;
  /** The number of tokens from it that earlier holders have used. Default 0. */
  readonly tokens?: number;
  /** The children of the parent in the latest listing. */
  readonly children: readonly string[];
  /** The data of the znode, if it may have been written while it waited. */
  readonly written?: NodeData;
}
