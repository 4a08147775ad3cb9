/** How many are kept. */
const MOST = 256;

const spare: AbortController[] = [];

/** To make an AbortController, and to collect it, costs more than to hand a lock over. */
export function takeController(): AbortController {
  return spare.pop() ?? new AbortController();
}

/** Nobody listens to its signal any more, and none of AbortSignal.any() was made of it. */
export function giveBackController(controller: AbortController): void {
  if (!controller.signal.aborted && spare.length < MOST) spare.push(controller);
}
