import {
  type LockMode,
  MAX_COUNT,
  MAX_DELAY,
  MAX_STRICT_BUYERS,
  type SaleSettings,
} from '../live/events.js';

/** `both`: two sales at once, one without a lock and one with it. */
export type Mode = 'both' | LockMode;

export interface Settings extends SaleSettings {
  readonly mode: Mode;
}

export const MODES: readonly Mode[] = ['both', 'none', 'lock', 'lingering', 'strict'];

export const DEFAULTS: Settings = { mode: 'both', buyers: 400, items: 100, delay: [20, 60] };

export const maxBuyers = (mode: Mode) => (mode === 'strict' ? MAX_STRICT_BUYERS : MAX_COUNT);

export function isValid({ mode, buyers, items, delay: [from, to] }: Settings): boolean {
  const isWhole = (value: number, least: number, most: number) =>
    Number.isInteger(value) && value >= least && value <= most;
  return (
    isWhole(buyers, 1, maxBuyers(mode)) &&
    isWhole(items, 1, MAX_COUNT) &&
    isWhole(from, 0, MAX_DELAY) &&
    isWhole(to, from, MAX_DELAY)
  );
}

/** The settings of a link; those that it does not contain, or that are not valid, have their defaults. */
export function settingsOf(search: string): Settings {
  const query = new URLSearchParams(search);
  const number = (name: string, otherwise: number) => {
    const text = query.get(name) ?? String(otherwise);
    return /^\d+$/.test(text) ? Number(text) : NaN;
  };
  const [, from, to = from] =
    /^(\d+)(?:-(\d+))?$/.exec(query.get('delay') ?? DEFAULTS.delay.join('-')) ?? [];
  const mode = query.get('mode') as Mode;
  const settings: Settings = {
    mode: MODES.includes(mode) ? mode : DEFAULTS.mode,
    buyers: number('buyers', DEFAULTS.buyers),
    items: number('items', DEFAULTS.items),
    delay: [Number(from), Number(to)],
  };
  return isValid(settings) ? settings : { ...DEFAULTS, mode: settings.mode };
}

/**
 * Returns a link to the page with these settings.
 *
 * @param parameters further parameters of the link
 */
export function linkTo(
  settings: Settings,
  base: string,
  language: string,
  parameters: Readonly<Record<string, string>> = {},
): string {
  const url = new URL(base);
  const { mode, buyers, items, delay } = settings;
  const query = { mode, buyers, items, delay: delay.join('-'), lang: language, ...parameters };
  url.search = '';
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value));
  url.hash = '';
  return url.href;
}
