// Named as OpenTelemetry's semantic conventions name theirs; error.type is one of them.

/** On spans alone: there may be as many as there are orders. */
export const KEY = 'zookeeper.lock.key';
/** On spans alone. */
export const PATH = 'zookeeper.lock.path';
/** On spans alone. */
export const FENCING_TOKEN = 'zookeeper.lock.fencing_token';
export const RECIPE = 'zookeeper.lock.recipe';
export const GRANT_KIND = 'zookeeper.lock.grant.kind';
export const WAIT_OUTCOME = 'zookeeper.lock.wait.outcome';
export const HOLD_END = 'zookeeper.lock.hold.end';
export const ELECTION = 'zookeeper.election.name';
export const LEADER_CHANGE = 'zookeeper.leader.change';
export const CONNECTION_STATE = 'zookeeper.connection.state';
export const ERROR_TYPE = 'error.type';
