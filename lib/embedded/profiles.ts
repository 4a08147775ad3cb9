import { OpCode } from '../protocol/index.js';

/**
 * The server whose behaviour the embedded server copies: Apache ZooKeeper 3.8 or ClickHouse Keeper 25.8, which uses
 * ZooKeeper's protocol.
 *
 * @publicApi
 */
export type EmbeddedServerKind = 'zookeeper' | 'clickhouse-keeper';

/** The behaviour of Apache ZooKeeper. The fields are the differences between the servers that a client can notice. */
const zookeeper = {
  /** Whether the deletion of a child raises the parent's `pzxid`. */
  raisesPzxidOnDelete: true,
  /** Whether a change of a child's data raises the parent's `cversion`. */
  raisesCversionOnSetData: false,

  /**
   * Whether the server counts its transactions from 1. ZooKeeper has an epoch in the high bits of a zxid; the embedded
   * server has the time there. A data directory raises the zxids at each start in both cases, also at its first.
   */
  countsZxidsFromOne: false,
  /** The requests that change nothing, but are transactions and have a zxid of their own. */
  emptyTransactions: new Set() as ReadonlySet<number>,
  /** Whether a server refuses a client that has seen a later transaction than the server. */
  checksLastZxid: true,

  /** Whether a client that reconnects can resume its session. Otherwise it gets a new session instead. */
  resumesSessions: true,
  /** Whether ids and passwords of sessions are those of ZooKeeper. Otherwise the id is a small number and the password zeros. */
  hasPasswords: true,
  /** Whether the reply to a handshake ends with the flag `readOnly` if the request does. */
  repliesReadOnly: true,
  /** Whether a server without a majority accepts connections and refuses the handshake. Otherwise it closes them. */
  refusesHandshakeWithoutMajority: false,
  /** Whether the reply that refuses a handshake has the protocol version 42. */
  marksRefusals: false,
  /** Whether the end of a session by its client is confirmed by a reply, before the connection ends. */
  repliesToClose: true,

  /** The operations of ZooKeeper that the server does not have. */
  missingOperations: new Set() as ReadonlySet<number>,
  /** Whether a request of an unknown type gets an error, before the connection ends. */
  repliesToUnknown: true,

  /** Whether a watch event is withheld from a client that may not read the node. */
  hidesEvents: true,
  /** Whether a client that watches the data and the children of a node is notified of its deletion only once. */
  mergesDeletedEvents: true,
  /** Whether the creation of a sequential node notifies the watchers of its path without the sequence number. */
  notifiesRequestedPath: false,

  /**
   * Whether ACLs are those of ClickHouse Keeper: an empty one admits everybody, entries of unknown schemes are dropped, a
   * digest has exactly one colon, and clients cannot authenticate in another way.
   */
  hasKeeperAcls: false,
  /** Whether a reader without admin permission sees the users of an ACL without their hashes. */
  hidesHashes: true,
  /** Whether wrong credentials end the connection. */
  closesOnAuthFailure: true,

  /** The nodes that exist from the start, below the root, with their data. */
  systemNodes: new Map([
    ['/zookeeper', ''],
    ['/zookeeper/config', ''],
    ['/zookeeper/quota', ''],
  ]) as ReadonlyMap<string, string>,
  /** The version, as four-letter words name it, and its title. */
  version: '3.8.0-embedded, built on 2022-02-25 08:49 UTC',
  versionTitle: 'Zookeeper version',
  /** The four-letter words that are answered by default. */
  fourLetterWords: ['srvr'] as readonly string[],
  /** Whether a four-letter word that is not allowed gets an answer that says so. */
  explainsRefusedWords: true,
  /** Further lines of `mntr`. */
  monitorLines: [] as readonly string[],
  /** The lines of `ftfl`, if the server has this word. */
  featureFlags: undefined as readonly string[] | undefined,
};

export type ServerProfile = Readonly<typeof zookeeper>;

const { checkWatches, removeWatches, addWatch, setWatches, setWatches2 } = OpCode;
const { create2, createContainer, createTTL, reconfig } = OpCode;
const { getEphemerals, getAllChildrenNumber, whoAmI, sasl } = OpCode;

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
