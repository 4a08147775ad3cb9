import { hostname } from 'node:os';

/** What our nodes say about their holder to whoever reads them. Curator puts the host's address there. */
export const HOLDER_DETAILS: Uint8Array = Buffer.from(
  JSON.stringify({ host: hostname(), pid: process.pid }),
);
