import type { ErrorCode } from '../protocol/index.js';

/** A request's refusal, by ZooKeeper's own code. */
export class KeeperError extends Error {
  override readonly name = 'KeeperError';

  constructor(readonly code: (typeof ErrorCode)[keyof typeof ErrorCode]) {
    super(`ZooKeeper error ${code}`);
  }
}
