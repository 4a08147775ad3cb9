/** Does what the parent's {@link Child} asks for. A process whose parent is gone ends: nobody else would stop it. */
export function answer(requests) {
  process.on('disconnect', () => process.exit());
  // It may have gone before this line.
  if (!process.connected) process.exit();
  process.on('message', async ({ ticket, request, argument }) => {
    try {
      tell({ type: 'answer', ticket, result: await requests[request](argument) });
    } catch (error) {
      tell({ type: 'answer', ticket, failure: String(error) });
    }
  });
}

export function tell(message) {
  process.send(message);
}
