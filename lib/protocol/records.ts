import {
  bigint,
  bool,
  bytes,
  type Codec,
  int,
  long,
  record,
  requiredVector,
  text,
  textOrEmpty,
  textOrNull,
  type ValueOf,
  vector,
} from './codec.js';

export const Stat = record({
  czxid: long,
  mzxid: long,
  ctime: long,
  mtime: long,
  version: int,
  cversion: int,
  aversion: int,
  ephemeralOwner: bigint,
  dataLength: int,
  numChildren: int,
  pzxid: long,
});
export type Stat = ValueOf<typeof Stat>;

export const Acl = record({ perms: int, scheme: text, id: text });
export type Acl = ValueOf<typeof Acl>;
/** An ACL as clients write it: the server decides which nulls it accepts. */
const AclEntry = record({ perms: int, scheme: textOrNull, id: textOrNull });
export type AclEntry = ValueOf<typeof AclEntry>;

/** Old clients and servers omit this last byte; `readOnly` is then undefined. */
const trailingReadOnly: Codec<boolean | undefined> = {
  read: (from) => (from.remaining > 0 ? from.bool() : undefined),
  write: (value, to) => {
    if (value !== undefined) to.bool(value);
  },
};

export const ConnectRequest = record({
  protocolVersion: int,
  lastZxidSeen: long,
  timeout: int,
  sessionId: bigint,
  password: bytes,
  readOnly: trailingReadOnly,
});
export type ConnectRequest = ValueOf<typeof ConnectRequest>;

export const ConnectResponse = record({
  protocolVersion: int,
  timeout: int,
  sessionId: bigint,
  password: bytes,
  readOnly: trailingReadOnly,
});

export const RequestHeader = record({ xid: int, type: int });
export type RequestHeader = ValueOf<typeof RequestHeader>;
export const ReplyHeader = record({ xid: int, zxid: long, err: int });

export const WatcherEvent = record({ type: int, state: int, path: text });
export const AuthPacket = record({ type: int, scheme: textOrNull, auth: bytes });
const watchFields = {
  relativeZxid: long,
  dataWatches: requiredVector(text),
  existWatches: requiredVector(text),
  childWatches: requiredVector(text),
};
export const SetWatches = record(watchFields);
export const SetWatches2 = record({
  ...watchFields,
  persistentWatches: requiredVector(text),
  persistentRecursiveWatches: requiredVector(text),
});
export const AddWatchRequest = record({ path: textOrEmpty, mode: int });
/** Precedes each operation and each result of a multi; one with `done` set ends the multi. */
export const MultiHeader = record({ type: int, done: bool, err: int });

export const CheckWatchesRequest = record({ path: text, type: int });
export const RemoveWatchesRequest = record({ path: textOrEmpty, type: int });

const createFields = { path: text, data: bytes, acl: vector(AclEntry), flags: int };
export const CreateRequest = record(createFields);
export const CreateTTLRequest = record({ ...createFields, ttl: long });
export const DeleteRequest = record({ path: text, version: int });
export const CheckVersionRequest = record({ path: textOrEmpty, version: int });
/** getACL and getAllChildrenNumber. */
export const PathRequest = record({ path: text });
/** The request and its answer. */
export const Sync = record({ path: textOrNull });
export const GetEphemeralsRequest = record({ prefix: textOrEmpty });
/** exists, getData, getChildren and getChildren2. */
export const ReadRequest = record({ path: text, watch: bool });
export const SetDataRequest = record({ path: textOrEmpty, data: bytes, version: int });
export const SetACLRequest = record({ path: textOrEmpty, acl: vector(AclEntry), version: int });

/** addWatch, and a failed operation of a multi. */
export const ErrorResponse = record({ err: int });
export const PathResponse = record({ path: text });
/** create2, createContainer and createTTL. */
export const Create2Response = record({ path: text, stat: Stat });
/** exists, setData and setACL. */
export const StatResponse = record({ stat: Stat });
export const GetDataResponse = record({ data: bytes, stat: Stat });
export const GetACLResponse = record({ acl: vector(Acl), stat: Stat });
export const GetChildrenResponse = record({ children: vector(text) });
export const GetChildren2Response = record({ children: vector(text), stat: Stat });
export const GetEphemeralsResponse = record({ ephemerals: vector(text) });
export const GetAllChildrenNumberResponse = record({ totalNumber: int });
export const WhoAmIResponse = record({ clientInfo: vector(record({ scheme: text, user: text })) });
/** Requests and replies without a body. */
export const Empty: Codec<void> = { read: () => undefined, write: () => undefined };
