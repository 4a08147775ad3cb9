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
  create2: 15,
  reconfig: 16,
  createContainer: 19,
  createTTL: 21,
  auth: 100,
  setWatches: 101,
  closeSession: -11,
} as const;

export const ErrorCode = {
  ok: 0,
  marshallingError: -5,
  unimplemented: -6,
  badArguments: -8,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  noChildrenForEphemerals: -108,
  nodeExists: -110,
  notEmpty: -111,
  invalidAcl: -114,
  authFailed: -115,
  reconfigDisabled: -123,
} as const;

/** Xids that are not an answer to a numbered request. */
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

/** The state that every watch event of a live connection carries. */
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
