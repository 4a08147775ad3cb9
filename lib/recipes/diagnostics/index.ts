export type { GrantKind, Hold, HoldMessage, LeaderMessage, Wait, WaitMessage } from './messages.js';
