/** Milliseconds that the close of a recipe waits for the replies to its last requests. */
export const CLOSE_TIMEOUT = 2000;
