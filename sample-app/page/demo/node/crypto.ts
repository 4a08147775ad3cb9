import { onSync } from './module.js';
import { unavailable } from './unavailable.js';

/** The simulation replaces these functions. No code calls them outside of a simulation. */
const random = {
  randomUUID: unavailable,
  randomBytes: unavailable,
  randomFill: unavailable,
  randomFillSync: unavailable,
  randomInt: unavailable,
};
export default random;

export let { randomUUID, randomBytes, randomFill, randomFillSync, randomInt } = random;
export const createHash = unavailable;

onSync(() => {
  ({ randomUUID, randomBytes, randomFill, randomFillSync, randomInt } = random);
});
