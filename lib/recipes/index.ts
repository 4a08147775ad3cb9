export * from '../client/index.js';
export { currentLease, runDetached } from './chain.js';
export {
  ForeignNodeError,
  LeaseLostError,
  LockBusyError,
  LockTimeoutError,
  NotLeaderError,
  SelfDeadlockError,
  SequenceExhaustedError,
} from './errors.js';
export type { AcquireOptions, Lease } from './lease.js';
export { type Entry, Mutex, type MutexOptions } from './mutex.js';
