import { MAX_COUNT, MAX_DELAY } from '../live/events.js';
import type { Messages } from './messages/messages.js';
import { isValid, maxBuyers, MODES, type Settings } from './settings.js';

interface SettingsFormProps {
  messages: Messages;
  settings: Settings;
  onChange: (settings: Settings) => void;
}

/** The settings of the next sale, folded away. */
export function SettingsForm({ messages, settings, onChange }: SettingsFormProps) {
  const { mode, buyers, items, delay } = settings;
  const [from, to] = delay;
  const change = (part: Partial<Settings>) => onChange({ ...settings, ...part });
  const number = (
    label: string,
    value: number,
    least: number,
    most: number,
    set: (value: number) => void,
  ) => (
    <label>
      <span>{label}</span>
      <input
        type="number"
        min={least}
        max={most}
        required
        value={Number.isNaN(value) ? '' : value}
        onInput={(event) => set(event.currentTarget.valueAsNumber)}
      />
    </label>
  );
  return (
    <details class="settings">
      <summary>{messages.settings}</summary>
      <fieldset class="modes">
        <legend>{messages.lock}</legend>
        {MODES.map((each) => (
          <label key={each}>
            <input
              type="radio"
              name="mode"
              value={each}
              checked={each === mode}
              onChange={() => change({ mode: each })}
            />
            <span>{messages.modes[each].name}</span>
          </label>
        ))}
      </fieldset>
      <div class="numbers">
        {number(messages.items, items, 1, MAX_COUNT, (value) => change({ items: value }))}
        {number(messages.buyers, buyers, 1, maxBuyers(mode), (value) => change({ buyers: value }))}
        {number(messages.delayFrom, from, 0, MAX_DELAY, (value) => change({ delay: [value, to] }))}
        {number(messages.delayTo, to, 0, MAX_DELAY, (value) => change({ delay: [from, value] }))}
      </div>
      <p class="hint" role="status">
        {isValid(settings) ? messages.modes[mode].hint : messages.invalid}
      </p>
    </details>
  );
}
