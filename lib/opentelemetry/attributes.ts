// Names follow OpenTelemetry's semantic conventions, which define error.type.

/** Only on spans: the number of keys is unlimited. */
export const KEY = 'zookeeper.lock.key';
/** Only on spans. */
export const PATH = 'zookeeper.lock.path';
/** Only on spans. */
export const FENCING_TOKEN = 'zookeeper.lock.fencing_token';
export const RECIPE = 'zookeeper.lock.recipe';
export const GRANT_KIND = 'zookeeper.lock.grant.kind';
export const WAIT_OUTCOME = 'zookeeper.lock.wait.outcome';
export const HOLD_END = 'zookeeper.lock.hold.end';
export const ELECTION = 'zookeeper.election.name';
export const LEADER_CHANGE = 'zookeeper.leader.change';
export const CONNECTION_STATE = 'zookeeper.connection.state';
export const ERROR_TYPE = 'error.type';
