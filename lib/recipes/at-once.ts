/** A release that nobody has to wait for. One for all, and whoever knows it by sight spares the wait. */
export const AT_ONCE = Promise.resolve();
