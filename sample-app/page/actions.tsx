import type { Scenario } from '../live/events.js';
import type { Messages } from './messages/messages.js';
import type { Mode } from './settings.js';

const SCENARIOS: readonly Scenario[] = ['oversell', 'herd', 'sleeping-holder', 'killed-leader'];

interface ActionsProps {
  messages: Messages;
  mode: Mode;
  isRunning: boolean;
  canControl: boolean;
  /** Whether the settings are valid; the scenarios have their own. */
  canStart: boolean;
  scenario: Scenario | undefined;
  onStart: () => void;
  /** `stop` ends the scenario that is being played. */
  onScenario: (name: Scenario | 'stop') => void;
}

/** The main button, and the scenarios. They keep the focus while they are disabled. */
export function Actions(props: ActionsProps) {
  const { messages, mode, isRunning, canControl, canStart, scenario, onStart, onScenario } = props;
  const isDisabled = isRunning || !canControl;
  const isStartDisabled = isDisabled || !canStart;
  return (
    <div class="actions">
      <button
        type="button"
        class="primary"
        aria-disabled={isStartDisabled}
        onClick={({ detail }) => isStartDisabled || detail > 1 || onStart()}
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
            onClick={({ detail }) => {
              // The second click of a double click.
              if (detail > 1) return;
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
