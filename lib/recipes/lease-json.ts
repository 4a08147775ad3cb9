import type { Lease } from './lease.js';

/** What JSON.stringify says of a lease: of its parts it would follow each to the client, and stop at a bigint. */
export function leaseToJSON({ key, path, held, fencingToken }: Lease): object {
  return { key, path, held, fencingToken: String(fencingToken) };
}
