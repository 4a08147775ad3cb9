import type { InstanceStatus } from '../live/events.js';
import { type LiveRun, STALE_AFTER, unconfirmedSince } from './live-run.js';
import type { Messages } from './messages/messages.js';

export type Action = keyof Messages['actions'];

interface InstanceHeadProps {
  number: number;
  live: LiveRun;
  messages: Messages;
  canControl: boolean;
  /** Absent where the buttons stand elsewhere. */
  onAction?: (action: Action) => void;
}

/** Name, state and faults of an instance. */
export function InstanceHead({ number, live, messages, canControl, onAction }: InstanceHeadProps) {
  const instance = live.status?.instances.find((each) => each.number === number);
  const since = instance && unconfirmedSince(instance, live);
  const { canExpire = false, canPause = true } = live.hello ?? {};
  const { faults = [], life } = instance ?? {};
  const isPaused = faults.includes('pause');
  const isCut = faults.includes('cut');
  const isAlive = life === 'alive';
  const actions: [action: Action, isEnabled: boolean][] = [
    [isPaused ? 'resume' : 'pause', isAlive && canPause],
    [isCut ? 'heal' : 'cut', isAlive],
    [life === 'dead' ? 'revive' : 'kill', isAlive || life === 'dead'],
    ['expire', isAlive && canExpire],
  ];
  return (
    <div class="instance" data-instance={number}>
      <p class="name">
        <b>{messages.instance(number)}</b>
        {since === undefined && instance?.holds && <span class="badge">{messages.holds}</span>}
        {since === undefined && instance?.leads && (
          <span class="badge plain">{messages.leads}</span>
        )}
      </p>
      <p class={`state ${stateKind(instance, since)}`}>
        {instance &&
          (lockText(instance, live, messages) ?? stateText(instance, since, live.now, messages))}
      </p>
      {onAction && (
        <p class="faults">
          {actions.map(([action, isEnabled], index) => {
            const isDisabled = !isEnabled || !canControl;
            const name = messages.actions[action];
            return (
              <button
                type="button"
                // A button keeps the focus when its action changes.
                key={index}
                aria-disabled={isDisabled}
                aria-label={messages.actionOn(name, number)}
                // The second click of a double click would end what the first one has begun.
                onClick={({ detail }) => isDisabled || detail > 1 || onAction(action)}
              >
                {name}
              </button>
            );
          })}
        </p>
      )}
    </div>
  );
}

function stateKind(instance: InstanceStatus | undefined, since: number | undefined): string {
  if (!instance || since !== undefined) return 'unknown';
  if (instance.life === 'dead') return 'dead';
  if (instance.faults.length > 0) return 'warn';
  const { connection } = instance;
  if (connection === 'CONNECTED' || connection === 'RECONNECTED') return 'good';
  return connection === 'LOST' ? 'bad' : 'warn';
}

/** The state of a holder that ZooKeeper does not hear, and when another instance can be granted its lock. */
function lockText(
  { number, life, faults, movesOnAt }: InstanceStatus,
  { now, status, statusAge = 0 }: LiveRun,
  { states, cutOff, lockFreeIn, lockFreeSoon, seconds }: Messages,
): string | undefined {
  if (movesOnAt === undefined || statusAge > STALE_AFTER) return undefined;
  const others = status!.instances.filter((each) => each.number !== number);
  if (others.every((each) => each.life !== 'alive')) return undefined;
  const state = life === 'dead' ? states.dead : faults.includes('pause') ? states.paused : cutOff;
  return `${state}, ${now < movesOnAt ? lockFreeIn(seconds(movesOnAt - now)) : lockFreeSoon}`;
}

function stateText(
  instance: InstanceStatus,
  since: number | undefined,
  now: number,
  messages: Messages,
): string {
  const { states, cutOff, notConfirmed } = messages;
  const { life, faults, connection } = instance;
  if (life !== 'alive') return states[life];
  const fault = faults.includes('pause') ? states.paused : faults.includes('cut') ? cutOff : '';
  if (since !== undefined) {
    const unknown = notConfirmed(messages.seconds(now - since));
    return fault ? `${fault}, ${unknown}` : unknown;
  }
  if (fault) return fault;
  switch (connection) {
    case 'CONNECTED':
    case 'RECONNECTED':
      return states.connected;
    case 'SUSPENDED':
      return states.suspended;
    case 'LOST':
      return states.lost;
    default:
      return states.connecting;
  }
}
