import { en } from './en.js';
import type { Messages } from './messages.js';
import { zh } from './zh.js';

export type Language = 'en' | 'zh';

export const MESSAGES: Readonly<Record<Language, Messages>> = { en, zh };

const STORED = 'language';

/** The language of the link, the one that was chosen last, or that of the browser. */
export function initialLanguage(): Language {
  const named = new URLSearchParams(location.search).get('lang') ?? localStorage.getItem(STORED);
  return (named ?? navigator.language).startsWith('zh') ? 'zh' : 'en';
}

export function rememberLanguage(language: Language): void {
  localStorage.setItem(STORED, language);
  const url = new URL(location.href);
  url.searchParams.set('lang', language);
  history.replaceState(undefined, '', url);
}
