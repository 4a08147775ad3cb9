import { STALE_AFTER, type LiveRun } from './live-run.js';
import type { Messages } from './messages/messages.js';

interface ZookeeperProps {
  live: LiveRun;
  messages: Messages;
  canControl: boolean;
  onAction: (action: 'pause' | 'resume') => void;
}

/** Whether ZooKeeper answers, and the button that pauses it. */
export function Zookeeper({ live, messages, canControl, onAction }: ZookeeperProps) {
  const { status, statusAge = 0, ensembleAge = 0 } = live;
  const isPaused = status?.ensemble.isPaused ?? false;
  const isSilent = ensembleAge > STALE_AFTER;
  const age = messages.seconds(ensembleAge);
  const [kind, text] = !status
    ? ['', '']
    : statusAge > STALE_AFTER
      ? ['unknown', messages.notConfirmed(age)]
      : isSilent
        ? ['bad', messages.silentFor(age)]
        : isPaused
          ? ['warn', messages.states.paused]
          : ['good', messages.answers];
  return (
    <div class="zookeeper">
      <p class="name">
        <b>ZooKeeper</b>
      </p>
      <p class={`state ${kind}`}>{text}</p>
      <button
        type="button"
        aria-disabled={!canControl}
        // The second click of a double click would end the pause.
        onClick={({ detail }) =>
          !canControl || detail > 1 || onAction(isPaused ? 'resume' : 'pause')
        }
      >
        {isPaused ? messages.resumeZookeeper : messages.pauseZookeeper}
      </button>
    </div>
  );
}
