import { ProtocolError, type Reader, type Writer } from './jute.js';

/** Reads and writes one type of value. */
export interface Codec<T> {
  read(from: Reader): T;
  write(value: T, to: Writer): void;
}

export type ValueOf<C> = C extends Codec<infer T> ? T : never;

const int: Codec<number> = {
  read: (from) => from.int(),
  write: (value, to) => to.int(value),
};

const long: Codec<number> = {
  read: (from) => from.long(),
  write: (value, to) => to.long(value),
};

const bigint: Codec<bigint> = {
  read: (from) => from.bigint(),
  write: (value, to) => to.bigint(value),
};

const bool: Codec<boolean> = {
  read: (from) => from.bool(),
  write: (value, to) => to.bool(value),
};

const text: Codec<string> = {
  read: (from) => from.text(),
  write: (value, to) => to.text(value),
};

const textOrNull: Codec<string | null> = {
  read: (from) => from.textOrNull(),
  write: (value, to) => (value === null ? to.int(-1) : to.text(value)),
};

/** A string that a server reads as the empty one if it is null. */
const textOrEmpty: Codec<string> = {
  read: (from) => from.textOrNull() ?? '',
  write: text.write,
};

const bytes: Codec<Uint8Array | null> = {
  read: (from) => from.bytes(),
  write: (value, to) => to.bytes(value),
};

function vector<T>(item: Codec<T>): Codec<readonly T[]> {
  return {
    read: (from) => from.vector(item.read),
    write: (value, to) => to.vector(value, item.write),
  };
}

/** A vector that must not be null. Otherwise null is read as an empty vector. */
function requiredVector<T>(item: Codec<T>): Codec<readonly T[]> {
  const { read, write } = vector(item);
  return {
    read(from) {
      if (from.fork().int() === -1) throw new ProtocolError('a null vector');
      return read(from);
    },
    write,
  };
}

/** A record: its fields one after the other, in the order in which they are declared. */
function record<F extends Record<string, Codec<unknown>>>(
  fields: F,
): Codec<{ [K in keyof F]: ValueOf<F[K]> }> {
  const names = Object.keys(fields);
  const codecs = Object.values(fields);
  return {
    read(from) {
      const value: Record<string, unknown> = {};
      for (let i = 0; i < names.length; i++) value[names[i]] = codecs[i].read(from);
      return value as { [K in keyof F]: ValueOf<F[K]> };
    },
    write(value, to) {
      for (let i = 0; i < names.length; i++) codecs[i].write(value[names[i]], to);
    },
  };
}

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
