/**
 * Answers the requests of the parent's {@link Child}. The process exits when its parent is gone, because
 * nothing else would stop it.
 */
export function answer(requests: Readonly<Record<string, (argument: never) => unknown>>): void {
  process.on('disconnect', () => process.exit());
  // The parent may have gone before the listener was added.
  if (!process.connected) process.exit();
  process.on('message', async (message: Request) => {
    const { ticket, request, argument } = message;
    try {
      const result = await requests[request]!(argument as never);
      send({ type: 'answer', ticket, result });
    } catch (error) {
      send({ type: 'answer', ticket, failure: String(error) });
    }
  });
}

/** A request as it travels from the parent to the child. */
export interface Request {
  readonly ticket: number;
  readonly request: string;
  readonly argument?: unknown;
}

/** Sends a message of the child's own accord; the parent receives it by `Child.onMessage`. */
export function send(message: object): void {
  process.send!(message);
}
