import type { Scenario } from '../live/events.js';
import type { Messages } from './messages/messages.js';
import type { Mode } from './settings.js';

const SCENARIOS: readonly Scenario[] = ['oversell', 'herd', 'sleeping-holder', 'killed-leader'];

interface ActionsProps {
  messages: Messages;
  mode: Mode;
  isRunning: boolean;
  isEnabled: boolean;
  scenario: Scenario | undefined;
  onStart: () => void;
  /** `stop` ends the scenario that is being played. */
  onScenario: (name: Scenario | 'stop') => void;
}

/** The main button, and the scenarios. They keep the focus while they are disabled. */
export function Actions(props: ActionsProps) {
  const { messages, mode, isRunning, isEnabled, scenario, onStart, onScenario } = props;
  const isDisabled = isRunning || !isEnabled;
  return (
    <div class="actions">
      <button
        type="button"
        class="primary"
        aria-disabled={isDisabled}
        onClick={() => isDisabled || onStart()}
      >
        {isRunning ? messages.running : messages.run[mode === 'both' ? 'both' : 'one']}
      </button>
      <div class="scenarios" role="group" aria-labelledby="scenarios">
        <span id="scenarios">{messages.scenarios}</span>
        {SCENARIOS.map((name) => (
          <button
            type="button"
            class="link"
            aria-disabled={isDisabled && scenario !== name}
            aria-pressed={scenario === name}
            onClick={() => {
              if (scenario === name) onScenario('stop');
              else if (!isDisabled) onScenario(name);
            }}
          >
            {messages.scenarioNames[name]}
          </button>
        ))}
      </div>
    </div>
  );
}
