import { OpCode } from '../protocol/index.js';

/**
 * The server whose behaviour the embedded server copies: Apache ZooKeeper 3.8 or ClickHouse Keeper 25.8, which uses
 * ZooKeeper's protocol.
 *
 * @publicApi
 */
export type EmbeddedServerKind = 'zookeeper' | 'clickhouse-keeper';

/** The differences between the servers that a client can notice. */
export interface ServerProfile {
  /** Whether the deletion of a child raises the parent's `pzxid`. */
  readonly raisesPzxidOnDelete: boolean;
  /** Whether a change of a child's data raises the parent's `cversion`. */
  readonly raisesCversionOnSetData: boolean;

  /**
   * Whether the server counts its transactions from 1. ZooKeeper has an epoch in the high bits of a zxid; the embedded
   * server has the time there. A data directory raises the zxids at each start in both cases, also at its first.
   */
  readonly countsZxidsFromOne: boolean;
  /** The requests that change nothing, but are transactions and have a zxid of their own. */
  readonly emptyTransactions: ReadonlySet<number>;
  /** Whether a server refuses a client that has seen a later transaction than the server. */
  readonly checksLastZxid: boolean;

  /** Whether a client that reconnects can resume its session. Otherwise it gets a new session instead. */
  readonly resumesSessions: boolean;
  /** Whether ids and passwords of sessions are those of ZooKeeper. Otherwise the id is a small number and the password zeros. */
  readonly hasPasswords: boolean;
  /** Whether the reply to a handshake ends with the flag `readOnly` if the request does. */
  readonly repliesReadOnly: boolean;
  /** Whether a server without a majority accepts connections and refuses the handshake. Otherwise it closes them. */
  readonly refusesHandshakeWithoutMajority: boolean;
  /** Whether the reply that refuses a handshake has the protocol version 42. */
  readonly marksRefusals: boolean;
  /** Whether the end of a session by its client is confirmed by a reply, before the connection ends. */
  readonly repliesToClose: boolean;

  /** The operations of ZooKeeper that the server does not have. */
  readonly missingOperations: ReadonlySet<number>;
  /** Whether a request of an unknown type gets an error, before the connection ends. */
  readonly repliesToUnknown: boolean;

  /** Whether a watch event is withheld from a client that may not read the node. */
  readonly hidesEvents: boolean;
  /** Whether a client that watches the data and the children of a node is notified of its deletion only once. */
  readonly mergesDeletedEvents: boolean;
  /** Whether the creation of a sequential node notifies the watchers of its path without the sequence number. */
  readonly notifiesRequestedPath: boolean;

  /**
   * Whether ACLs are those of ClickHouse Keeper: an empty one admits everybody, entries of unknown schemes are dropped, a
   * digest has exactly one colon, and clients cannot authenticate in another way.
   */
  readonly hasKeeperAcls: boolean;
  /** Whether a reader without admin permission sees the users of an ACL without their hashes. */
  readonly hidesHashes: boolean;
  /** Whether wrong credentials end the connection. */
  readonly closesOnAuthFailure: boolean;

  /** The nodes that exist from the start, below the root, with their data. */
  readonly systemNodes: ReadonlyMap<string, string>;
  /** The version, as four-letter words name it, and its title. */
  readonly version: string;
  readonly versionTitle: string;
  /** The four-letter words that are answered by default. */
  readonly fourLetterWords: readonly string[];
  /** Whether a four-letter word that is not allowed gets an answer that says so. */
  readonly explainsRefusedWords: boolean;
  /** Further lines of `mntr`. */
  readonly monitorLines: readonly string[];
  /** The lines of `ftfl`, if the server has this word. */
  readonly featureFlags: readonly string[] | undefined;
}

const { checkWatches, removeWatches, addWatch, setWatches, setWatches2 } = OpCode;
const { create2, createContainer, createTTL, reconfig } = OpCode;
const { getEphemerals, getAllChildrenNumber, whoAmI, sasl } = OpCode;

const zookeeper: ServerProfile = {
  raisesPzxidOnDelete: true,
  raisesCversionOnSetData: false,
  countsZxidsFromOne: false,
  emptyTransactions: new Set(),
  checksLastZxid: true,
  resumesSessions: true,
  hasPasswords: true,
  repliesReadOnly: true,
  refusesHandshakeWithoutMajority: false,
  marksRefusals: false,
  repliesToClose: true,
  missingOperations: new Set(),
  repliesToUnknown: true,
  hidesEvents: true,
  mergesDeletedEvents: true,
  notifiesRequestedPath: false,
  hasKeeperAcls: false,
  hidesHashes: true,
  closesOnAuthFailure: true,
  systemNodes: new Map([
    ['/zookeeper', ''],
    ['/zookeeper/config', ''],
    ['/zookeeper/quota', ''],
  ]),
  version: '3.8.0-embedded, built on 2022-02-25 08:49 UTC',
  versionTitle: 'Zookeeper version',
  fourLetterWords: ['srvr'],
  explainsRefusedWords: true,
  monitorLines: [],
  featureFlags: undefined,
};

/**
 * Sources: ClickHouse's `src/Coordination` and `src/Server/KeeperTCPHandler.cpp`; its issues 115457 (`pzxid`, `cversion`),
 * 116690 (sessions), 55594 and 55595 (operations). Keeper 26 has more operations.
 */
const clickHouseKeeper: ServerProfile = {
  raisesPzxidOnDelete: false,
  raisesCversionOnSetData: true,
  countsZxidsFromOne: true,
  // The leader commits pings too, so a server that has lost its leader answers no ping.
  emptyTransactions: new Set([OpCode.ping, OpCode.sync]),
  checksLastZxid: false,
  resumesSessions: false,
  hasPasswords: false,
  repliesReadOnly: false,
  refusesHandshakeWithoutMajority: true,
  marksRefusals: true,
  repliesToClose: false,
  missingOperations: new Set([
    ...[create2, createContainer, createTTL, reconfig],
    ...[checkWatches, removeWatches, addWatch, setWatches, setWatches2],
    ...[getEphemerals, getAllChildrenNumber, whoAmI, sasl],
  ]),
  repliesToUnknown: false,
  hidesEvents: false,
  mergesDeletedEvents: false,
  notifiesRequestedPath: true,
  hasKeeperAcls: true,
  hidesHashes: false,
  closesOnAuthFailure: false,
  systemNodes: new Map([
    ['/keeper', ''],
    ['/keeper/api_version', '3'],
    // One bit for each feature: the second one is `multi_read`.
    ['/keeper/feature_flags', '@\0'],
  ]),
  version: 'v25.8.1.1-embedded',
  versionTitle: 'ClickHouse Keeper version',
  fourLetterWords: 'conf cons crst dirs envi isro mntr ruok srst srvr stat wchs ftfl'.split(' '),
  explainsRefusedWords: false,
  monitorLines: ['zk_key_arena_size\t0', 'zk_latest_snapshot_size\t0'],
  featureFlags: ['multi_read\t1', 'persistent_watches\t0', 'create_with_stats\t0'],
};

/** The profile of each server. */
export const PROFILES: Readonly<Record<EmbeddedServerKind, ServerProfile>> = Object.freeze({
  zookeeper: Object.freeze(zookeeper),
  'clickhouse-keeper': Object.freeze(clickHouseKeeper),
});
