const REASONS: Readonly<Record<string, string>> = {
  BUSY: 'busy',
  TIMEOUT: 'timed-out',
  CANCELLED: 'cancelled',
  CONNECTION: 'no-connection',
  SESSION_EXPIRED: 'no-connection',
};

/** Returns why a lock was not granted, by the code of the error. */
export function reasonOf(error: unknown): string {
  return REASONS[(error as { code?: string } | undefined)?.code ?? ''] ?? 'failed';
}
