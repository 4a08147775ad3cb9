// These cases omit accidental behaviour of the real server, such as its reply to createSession with a timeout.
import { OpCode } from '../../lib/protocol/index.js';
import { type Field, type RawRequest, request } from './raw-exchange.js';

const CREATE_SESSION = -10;
const DELETE_CONTAINER = 20;
const OPEN = [[31, 'world', 'anyone']];
const data = 'data';

const acl = (scheme: string | null, id: string | null) => [[31, scheme, id]];
const create = (path: string | null, entries: Field = OPEN) =>
  request(OpCode.create, path, data, entries, 1);
const auth = (scheme: string | null, credentials: string | null) =>
  request(OpCode.auth, 0, scheme, credentials);

/** A request that is part of a multi. */
const step = ({ type, fields }: RawRequest): Field[] => [type, false, -1, ...fields];
const multi = (...steps: RawRequest[]) =>
  request(OpCode.multi, ...steps.flatMap(step), -1, true, -1);
const multiRead = (...steps: RawRequest[]) =>
  request(OpCode.multiRead, ...steps.flatMap(step), -1, true, -1);

/** One request of each type that has a path, with this one. */
const withPath = (path: string | null): Record<string, RawRequest> => ({
  create: create(path),
  create2: request(OpCode.create2, path, data, OPEN, 0),
  createContainer: request(OpCode.createContainer, path, null, OPEN, 4),
  createTTL: request(OpCode.createTTL, path, null, OPEN, 5, 1000n),
  delete: request(OpCode.delete, path, -1),
  exists: request(OpCode.exists, path, false),
  'exists with a watch': request(OpCode.exists, path, true),
  getData: request(OpCode.getData, path, true),
  setData: request(OpCode.setData, path, data, -1),
  getACL: request(OpCode.getACL, path),
  setACL: request(OpCode.setACL, path, OPEN, -1),
  getChildren: request(OpCode.getChildren, path, true),
  getChildren2: request(OpCode.getChildren2, path, false),
  sync: request(OpCode.sync, path),
  check: request(OpCode.check, path, 7),
  checkWatches: request(OpCode.checkWatches, path, 3),
  removeWatches: request(OpCode.removeWatches, path, 3),
  'removeWatches of data': request(OpCode.removeWatches, path, 2),
  addWatch: request(OpCode.addWatch, path, 0),
  'recursive addWatch': request(OpCode.addWatch, path, 1),
  getEphemerals: request(OpCode.getEphemerals, path),
  getAllChildrenNumber: request(OpCode.getAllChildrenNumber, path),
});

const IN_MULTI = [
  'create',
  'create2',
  'createContainer',
  'createTTL',
  'delete',
  'setData',
  'check',
];

const identities: Record<string, Field> = {
  'a null id of scheme world': acl('world', null),
  'a null id of scheme digest': acl('digest', null),
  'a null id of scheme ip': acl('ip', null),
  'a null id of scheme auth': acl('auth', null),
  'a null id of an unknown scheme': acl('sms', null),
  'a null scheme': acl(null, 'anyone'),
  'a null scheme and a null id': acl(null, null),
  'a null scheme after a good one': [...OPEN, [31, null, 'x']],
  'a null id after a bad scheme': [
    [31, 'sms', 'x'],
    [31, 'world', null],
  ],
  'two null ids of scheme auth': [
    [31, 'auth', null],
    [31, 'auth', ''],
  ],
  'an equal entry with a null id': [
    [31, 'auth', ''],
    [31, 'auth', null],
  ],
  'two equal null ids': [
    [31, 'auth', null],
    [31, 'auth', null],
  ],
  'two null ids of other permissions': [
    [31, 'auth', null],
    [30, 'auth', null],
  ],
  'two null ids of other schemes': [
    [31, 'auth', null],
    [31, 'world', null],
  ],
  'a null scheme of other permissions': [
    [31, 'world', 'anyone'],
    [30, null, null],
  ],
  'null as the ACL': null,
  'an ACL of -2 entries': -2,
};

/** Requests whose answers any ZooKeeper 3.8 gives alike, by what the client does. */
export const rawCases: Record<string, readonly RawRequest[]> = {
  'sends SASL with a token': [request(OpCode.sasl, 'token'), create('/sasl')],
  'sends SASL with an empty token': [request(OpCode.sasl, '')],
  'sends SASL with a null token': [request(OpCode.sasl, null)],
  'sends SASL without a token': [request(OpCode.sasl)],
  'sends SASL with half a token': [request(OpCode.sasl, 7)],
  'sends the type of createSession': [request(CREATE_SESSION)],
  'sends the type of createSession with two bytes': [request(CREATE_SESSION, true, true)],
  'sends the type of deleteContainer': [request(DELETE_CONTAINER)],
  'sends the type of deleteContainer with a path': [request(DELETE_CONTAINER, '/')],
  'adds the watch of an empty path twice': [
    request(OpCode.addWatch, '', 0),
    request(OpCode.addWatch, '', 0),
    request(OpCode.removeWatches, '', 3),
    request(OpCode.removeWatches, '', 3),
  ],
  'has ephemeral nodes': [
    create('/eph'),
    request(OpCode.getEphemerals, null),
    request(OpCode.getEphemerals, ''),
  ],
  'adds a watch of null and of an unknown mode': [request(OpCode.addWatch, null, 5)],
  'removes a watch of null and of an unknown type': [request(OpCode.removeWatches, null, 9)],
  'sends a multi with a null path that is cut off': [
    request(OpCode.multi, ...step(create(null))),
    request(OpCode.multi, ...step(request(OpCode.delete, null)), 1),
    request(OpCode.multi, ...step(create(null)), 99, false, -1),
  ],
  'sends a multi of a null path after a refused type': [multi(request(99), create(null))],
  'sends a multi of a null path with a bad ACL': [multi(create(null, acl(null, null)))],
  'sends a multi of a null path with a bad flag': [
    multi(request(OpCode.create, null, data, OPEN, 9)),
  ],
  'sends a multiRead of a null path that is cut off': [
    request(OpCode.multiRead, ...step(request(OpCode.getData, null, false))),
  ],
  'sends a closeSession': [request(OpCode.closeSession)],

  'sends an unknown type': [request(108)],
  'sends the type of an error': [request(-1)],
  'pings with another xid': [{ ...request(OpCode.ping), xid: 7 }],
  'pings with the xid of an event': [{ ...request(OpCode.ping), xid: -1 }],
  'pings with a body': [request(OpCode.ping, 1, 2)],
  'authenticates with another xid': [{ ...auth('digest', 'a:b'), xid: 7 }],
  'authenticates with a null scheme': [auth(null, 'a:b')],
  'authenticates with an unknown scheme': [auth('sms', 'a:b')],
  'authenticates with the scheme world': [auth('world', 'anyone')],
  'authenticates with the scheme sasl': [auth('sasl', 'x')],
  'authenticates with a null digest': [auth('digest', null)],
  'authenticates with an empty digest': [auth('digest', ''), request(OpCode.ping)],
  'authenticates with a null address': [auth('ip', null)],
  'sets watches of null vectors': [request(OpCode.setWatches, 0n, null, null, null)],
  'sets watches of a null vector of data': [request(OpCode.setWatches, 0n, null, [], [])],
  'sets watches of a null vector of existence': [request(OpCode.setWatches, 0n, [], null, [])],
  'sets watches of a null vector of children': [request(OpCode.setWatches, 0n, [['/']], [], null)],
  'sets watches of null paths': [request(OpCode.setWatches, 0n, [[null]], [], [])],
  'sets watches of null paths that shall exist': [request(OpCode.setWatches, 0n, [], [[null]], [])],
  'sets watches of null paths of children': [request(OpCode.setWatches, 0n, [], [], [[null]])],
  'sets persistent watches of null vectors': [
    request(OpCode.setWatches2, 0n, [], [], [], null, []),
    request(OpCode.setWatches2, 0n, [], [], [], [], null),
  ],
  'sets persistent watches of null paths': [
    request(OpCode.setWatches2, 0n, [], [], [], [[null]], [[null]]),
    create('/after-null'),
  ],
  'sends a string of a length below -1': [request(OpCode.exists, -2), request(OpCode.sync, -2)],
  'sends a request that ends in a string': [request(OpCode.exists, 5), request(OpCode.sync)],
  'sends an empty multi': [multi()],
  'sends a multi that is cut off': [request(OpCode.multi), request(OpCode.multi, 1, false, -1)],
  'sends a multi with an unknown type': [multi(request(99))],
  'sends a multi with a null scheme': [multi(create('/m', acl(null, null)), create('/n'))],
  'sends a multi with a null id': [multi(create('/m'), create('/n', acl('world', null)))],
  'sends a multi that fails in a good way': [multi(create('/m'), create('/none/x'), create('/y'))],
};

const nothing = withPath(null);
for (const [name, one] of Object.entries(nothing)) {
  rawCases[`sends ${name} with a null path`] = [one];
}
for (const name of IN_MULTI) {
  rawCases[`sends a multi with ${name} of a null path`] = [
    multi(nothing[name]),
    multi(create('/before'), nothing[name], create('/none/x')),
    multi(create('/none/x'), nothing[name]),
  ];
}
for (const type of [OpCode.getData, OpCode.getChildren]) {
  const read = (path: string | null) => request(type, path, false);
  rawCases[`sends a multiRead of type ${type} with a null path`] = [
    multiRead(read(null)),
    multiRead(read('/none'), read(null), read('/none/x')),
  ];
}
for (const [name, entries] of Object.entries(identities)) {
  rawCases[`creates a node with ${name}`] = [create('/acl', entries)];
  rawCases[`creates a node with ${name} after authenticating`] = [
    auth('digest', 'a:b'),
    create('/acl', entries),
    request(OpCode.getACL, '/acl'),
  ];
}
