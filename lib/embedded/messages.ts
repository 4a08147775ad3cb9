import type { Fault } from './active-faults.js';
import type { ServerOptions } from './options.js';
import type { SavedStore } from './store.js';

/** What the thread is started with. */
export interface WorkerInput {
  readonly options: ServerOptions;
  readonly saved: SavedStore | undefined;
}

/** What this process asks of the thread. */
export type Command =
  | { readonly type: 'stop' }
  | { readonly type: 'dropConnections' }
  | { readonly type: 'dropConnection'; readonly session: bigint }
  | { readonly type: 'expireSession'; readonly id: bigint }
  | { readonly type: 'skipClock'; readonly ms: number }
  | { readonly type: 'addFault'; readonly id: number; readonly fault: Fault }
  | { readonly type: 'liftFault'; readonly id: number };

export interface Request {
  readonly id: number;
  readonly command: Command;
}

/** What the thread says: first that it listens or why it cannot, then an answer to each request. */
export type Answer =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'failed'; readonly reason: string; readonly code: string | undefined }
  | {
      readonly type: 'done';
      readonly id: number;
      readonly result: SavedStore | boolean | undefined;
    };
