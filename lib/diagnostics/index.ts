export type {
  ConnectionMessage,
  GrantKind,
  Hold,
  HoldMessage,
  LeaderMessage,
  Wait,
  WaitMessage,
} from './messages.js';
