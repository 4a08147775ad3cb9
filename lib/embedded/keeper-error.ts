import type { ErrorCode } from '../protocol/index.js';

/** The refusal of a request, with ZooKeeper's error code. */
export class KeeperError extends Error {
  override readonly name = 'KeeperError';

  constructor(readonly code: (typeof ErrorCode)[keyof typeof ErrorCode]) {
    super(`ZooKeeper error ${code}`);
  }
}
