import { OpCode } from '../protocol/index.js';

/**
 * The server whose behaviour the embedded server copies: Apache ZooKeeper 3.8, ClickHouse Keeper 25.8 or RaftKeeper 2.3.
 * All of them use ZooKeeper's protocol.
 *
 * @publicApi
 */
export type EmbeddedServerKind = 'zookeeper' | 'clickhouse-keeper' | 'raftkeeper';

/** The differences between the servers that a client can notice. */
export interface ServerProfile {
  /** Whether the deletion of a child by a client raises the parent's `pzxid`. */
  readonly raisesPzxidOnDelete: boolean;
  /** Whether the end of a session raises the `pzxid` of the parents of its ephemeral nodes. */
  readonly raisesPzxidOnSessionEnd: boolean;
  /** Whether a change of a child's data raises the parent's `cversion`. */
  readonly raisesCversionOnSetData: boolean;

  /**
   * Whether the server counts its transactions from 1. ZooKeeper has an epoch in the high bits of a zxid; the embedded
   * server has the time there. A data directory raises the zxids at each start in both cases, also at its first.
   */
  readonly countsZxidsFromOne: boolean;
  /** Whether the header of the reply to a read has the zxid of the next transaction instead of the last one. */
  readonly readsReportNextZxid: boolean;
  /** The requests that change nothing, but are transactions and have a zxid of their own. */
  readonly emptyTransactions: ReadonlySet<number>;
  /** The reads that raise the zxid of the server that answers them, and of no other server of the ensemble. */
  readonly countedReads: ReadonlySet<number>;
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
  /** Whether the reply that refuses a handshake has the protocol version 42, and the timeout −1 if the session has ended. */
  readonly marksRefusals: boolean;
  /** Whether the reply that refuses a handshake repeats the session id of the request. Otherwise the id is 0. */
  readonly refusalsRepeatSessionId: boolean;
  /** Whether the end of a session by its client is confirmed by a reply, before the connection ends. */
  readonly repliesToClose: boolean;
  /** Whether watches belong to the session, so that they remain after the loss of the connection. */
  readonly keepsWatches: boolean;

  /** The operations of ZooKeeper that the server does not have. */
  readonly missingOperations: ReadonlySet<number>;
  /** The outcome of a request of an unknown type: an error and the end of the connection, only its end, or nothing at all. */
  readonly unknownRequest: 'reply' | 'close' | 'ignore';
  /** Whether a multi fails as a whole, without results, if the client lacks a permission. */
  readonly refusesUnauthorizedMulti: boolean;

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
  /** The radix of the zxid in `srvr`. */
  readonly zxidRadix: 10 | 16;
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
  raisesPzxidOnSessionEnd: true,
  raisesCversionOnSetData: false,
  countsZxidsFromOne: false,
  readsReportNextZxid: false,
  emptyTransactions: new Set(),
  countedReads: new Set(),
  checksLastZxid: true,
  resumesSessions: true,
  hasPasswords: true,
  repliesReadOnly: true,
  refusesHandshakeWithoutMajority: false,
  marksRefusals: false,
  refusalsRepeatSessionId: false,
  repliesToClose: true,
  keepsWatches: false,
  missingOperations: new Set(),
  unknownRequest: 'reply',
  refusesUnauthorizedMulti: false,
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
  zxidRadix: 16,
  monitorLines: [],
  featureFlags: undefined,
};

/** What ClickHouse Keeper and RaftKeeper have in common. */
const raftBased: ServerProfile = {
  ...zookeeper,
  countsZxidsFromOne: true,
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
  hidesEvents: false,
  mergesDeletedEvents: false,
  notifiesRequestedPath: true,
  hasKeeperAcls: true,
  hidesHashes: false,
  closesOnAuthFailure: false,
  fourLetterWords: 'conf cons crst dirs envi isro mntr ruok srst srvr stat wchs'.split(' '),
  explainsRefusedWords: false,
};

/**
 * Sources: ClickHouse's `src/Coordination` and `src/Server/KeeperTCPHandler.cpp`; its issues 115457 (`pzxid`, `cversion`),
 * 116690 (sessions), 55594 and 55595 (operations). Keeper 26 has more operations.
 */
const clickHouseKeeper: ServerProfile = {
  ...raftBased,
  raisesPzxidOnDelete: false,
  raisesPzxidOnSessionEnd: false,
  raisesCversionOnSetData: true,
  // The leader commits pings too, so a server that has lost its leader answers no ping.
  emptyTransactions: new Set([OpCode.ping, OpCode.sync]),
  checksLastZxid: false,
  resumesSessions: false,
  unknownRequest: 'close',
  systemNodes: new Map([
    ['/keeper', ''],
    ['/keeper/api_version', '3'],
    // One bit for each feature: the second one is `multi_read`.
    ['/keeper/feature_flags', '@\0'],
  ]),
  fourLetterWords: [...raftBased.fourLetterWords, 'ftfl'],
  version: 'v25.8.1.1-embedded',
  versionTitle: 'ClickHouse Keeper version',
  monitorLines: ['zk_key_arena_size\t0', 'zk_latest_snapshot_size\t0'],
  featureFlags: ['multi_read\t1', 'persistent_watches\t0', 'create_with_stats\t0'],
};

/**
 * Sources: RaftKeeper's `src/Service` at version 2.3.0; its issues 399 (unknown operations), 34 and 60 (watches). Its
 * `setWatches` can block the whole server, so no client can use it. The profile treats it as a missing operation.
 */
const raftKeeper: ServerProfile = {
  ...raftBased,
  raisesPzxidOnSessionEnd: false,
  readsReportNextZxid: true,
  emptyTransactions: new Set([OpCode.sync]),
  countedReads: new Set([OpCode.getACL, OpCode.multiRead]),
  refusalsRepeatSessionId: true,
  keepsWatches: true,
  unknownRequest: 'ignore',
  refusesUnauthorizedMulti: true,
  systemNodes: new Map([
    ['/keeper', ''],
    ['/keeper/api_version', '2'],
  ]),
  version: '2.3.0-embedded',
  versionTitle: 'RaftKeeper version',
  zxidRadix: 10,
  monitorLines: ['zk_compatible_mode\tclickhouse', 'zk_is_leader\t1', 'zk_in_snapshot\t0'],
};

/** The profile of each server. */
export const PROFILES: Readonly<Record<EmbeddedServerKind, ServerProfile>> = Object.freeze({
  zookeeper: Object.freeze(zookeeper),
  'clickhouse-keeper': Object.freeze(clickHouseKeeper),
  raftkeeper: Object.freeze(raftKeeper),
});
