import { onSync } from './module.js';
import { unavailable } from './unavailable.js';

/** The simulation replaces these functions. No code calls them outside of a simulation. */
const promises = {
  setTimeout: unavailable,
  setImmediate: unavailable,
  setInterval: unavailable,
  scheduler: {},
};
export default promises;

export let { setTimeout, setImmediate, setInterval, scheduler } = promises;

onSync(() => {
  ({ setTimeout, setImmediate, setInterval, scheduler } = promises);
});
