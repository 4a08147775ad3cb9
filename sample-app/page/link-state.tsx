import { STALE_AFTER, type LiveRun } from './live-run.js';
import type { Messages } from './messages/messages.js';

/** Whether the page shows the present: the age of what it shows is part of the text. */
export function LinkState({ live, messages }: { live: LiveRun; messages: Messages }) {
  const { link } = messages;
  const { isDisconnected, statusAge, ensembleAge = 0, status } = live;
  const [kind, text, spoken] =
    statusAge === undefined
      ? ['connecting', link.connecting, link.connecting]
      : isDisconnected || statusAge > STALE_AFTER
        ? ['bad', link.noConnection(messages.seconds(statusAge)), link.noConnectionNow]
        : ensembleAge > STALE_AFTER || !status?.ensemble.answers
          ? ['bad', link.silent(messages.seconds(ensembleAge)), link.silentNow]
          : ['live', link.live, link.live];
  return (
    <p class={`link-state ${kind}`}>
      <span aria-hidden="true">{text}</span>
      <span class="spoken" role="status">
        {spoken}
      </span>
    </p>
  );
}
