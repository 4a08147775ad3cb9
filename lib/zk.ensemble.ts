import type { Connect } from './client/transport.js';

/** Where all connections of an application lead, in place of what their options say. */
export interface Ensemble {
  readonly connectString: string;
  /** In place of the client's own transports. */
  readonly connect?: Connect;
}

/** The token of an {@link Ensemble}; undefined but in tests. */
export const ZK_ENSEMBLE = Symbol('ZkEnsemble');
