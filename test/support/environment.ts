import type { EmbeddedServerKind } from 'nestjs-zookeeper/embedded';
import type { TransportName } from '../../lib/client/index.js';
import { PROFILES } from '../../lib/embedded/profiles.js';
import { OpCode } from '../../lib/protocol/index.js';

/** The server of the tests of this project. The projects are in vitest.config.ts. */
export const serverKind = (process.env.ZK_SERVER ?? 'simulated') as
  'simulated' | 'embedded' | 'real';
export const isSimulated = serverKind === 'simulated';
export const isReal = serverKind === 'real';

/** The transport of the clients of this project. */
export const transport = (process.env.ZK_TRANSPORT ?? 'wire') as TransportName;

/** The server whose behaviour the simulated or embedded server of this project copies. */
export const copiedServer = (process.env.ZK_PROFILE ?? 'zookeeper') as EmbeddedServerKind;

const { missingOperations, resumesSessions } = PROFILES[copiedServer];
const has = (operation: keyof typeof OpCode) => !missingOperations.has(OpCode[operation]);

/** The features that the server of this project has. A test of a feature is skipped where it is missing. */
export const serverHas = {
  containers: has('createContainer'),
  ttlNodes: has('createTTL'),
  persistentWatches: has('addWatch'),
  watchRemoval: has('removeWatches'),
  sessionResume: resumesSessions,
  /** Whether a grant needs no write for its token. That write notifies the next waiter. */
  tokensWithoutWrite: copiedServer === 'zookeeper',
};
