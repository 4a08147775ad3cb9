export const OpCode = {
  create: 1,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  getACL: 6,
  setACL: 7,
  getChildren: 8,
  sync: 9,
  ping: 11,
  getChildren2: 12,
  check: 13,
  multi: 14,
  create2: 15,
  reconfig: 16,
  checkWatches: 17,
  removeWatches: 18,
  createContainer: 19,
  createTTL: 21,
  multiRead: 22,
  auth: 100,
  setWatches: 101,
  sasl: 102,
  getEphemerals: 103,
  getAllChildrenNumber: 104,
  setWatches2: 105,
  addWatch: 106,
  whoAmI: 107,
  closeSession: -11,
} as const;

/** The type, in the reply to a multi, of an operation that failed or was rolled back. */
export const ERROR_RESULT = -1;

export const ErrorCode = {
  ok: 0,
  /** In a multi: not attempted, because an operation before it failed. */
  runtimeInconsistency: -2,
  /** Not from a server: the connection broke before the answer. */
  connectionLoss: -4,
  marshallingError: -5,
  unimplemented: -6,
  badArguments: -8,
  /** Not from a server: the transport cannot send the request. */
  unsupported: -99,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  noChildrenForEphemerals: -108,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  invalidAcl: -114,
  authFailed: -115,
  /** Not from a server: the client was closed before the answer. */
  closing: -116,
  sessionMoved: -118,
  noWatcher: -121,
  reconfigDisabled: -123,
  /** The server has not carried the request out, because it is overloaded. A follower without a leader sends it too. */
  throttled: -127,
  /** The server requires an authentication that the client lacks, and closes the connection. */
  sessionClosedRequireAuth: -124,
} as const;

/** Reserved xids, which no numbered request has. */
export const Xid = {
  watchEvent: -1,
  ping: -2,
  auth: -4,
  setWatches: -8,
} as const;

export const EventType = {
  created: 1,
  deleted: 2,
  dataChanged: 3,
  childrenChanged: 4,
} as const;
export type EventType = (typeof EventType)[keyof typeof EventType];

/** The watches of a client on a path that checkWatches and removeWatches refer to. */
export const WatcherType = {
  children: 1,
  data: 2,
  any: 3,
} as const;

/** The modes of addWatch. */
export const AddWatchMode = {
  persistent: 0,
  persistentRecursive: 1,
} as const;

/** The connection state in every watch event. */
export const SYNC_CONNECTED = 3;

export const Permission = {
  read: 1,
  write: 2,
  create: 4,
  delete: 8,
  admin: 16,
  all: 31,
} as const;

export const CreateFlag = {
  persistent: 0,
  ephemeral: 1,
  sequential: 2,
  ephemeralSequential: 3,
  container: 4,
  ttl: 5,
  ttlSequential: 6,
} as const;
