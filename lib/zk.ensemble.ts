// A file of its own, so that nestjs-zookeeper/testing does not load the module.
import type { Connect } from './client/transport/transport.js';

/** Replaces the `connectString` of all connections of an application. */
export interface Ensemble {
  readonly connectString: string;
  /** Replaces the client's transports. */
  readonly connect?: Connect;
}

/** The token of an {@link Ensemble}. Only tests override its value, which is undefined. */
export const ZK_ENSEMBLE = Symbol('ZkEnsemble');
