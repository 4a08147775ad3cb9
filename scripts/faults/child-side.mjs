// JavaScript with types in comments: processes of the tests run this file without a build.

/**
 * A request as it travels from the parent to the child.
 *
 * @typedef {object} Request
 * @property {number} ticket
 * @property {string} request
 * @property {unknown} [argument]
 */

/**
 * Answers the requests of the parent's `Child` (child.ts). The process exits when its parent is gone, because nothing
 * else would stop it.
 *
 * @param {Readonly<Record<string, (argument: any) => unknown>>} requests
 */
export function answer(requests) {
  process.on('disconnect', () => process.exit());
  // The parent may have gone before the listener was added.
  if (!process.connected) process.exit();
  process.on('message', async (/** @type {Request} */ { ticket, request, argument }) => {
    try {
      send({ type: 'answer', ticket, result: await requests[request](argument) });
    } catch (error) {
      send({ type: 'answer', ticket, failure: String(error) });
    }
  });
}

/**
 * Sends a message of the child's own accord; the parent receives it by `Child.onMessage`.
 *
 * @param {object} message
 */
export function send(message) {
  process.send?.(message);
}
