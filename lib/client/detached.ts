import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Runs a function outside of its caller's asynchronous context. The client's own timers and loops
 * live as long as it does: started plainly, they would keep the AsyncLocalStorage context of whoever
 * happened to connect (a request, a held lock) alive for ever and hand it to every listener.
 */
export const detached: <T>(fn: () => T) => T = AsyncLocalStorage.snapshot();
