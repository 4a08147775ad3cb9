import { onSync } from './module.js';

const timers = {
  setTimeout: globalThis.setTimeout,
  setInterval: globalThis.setInterval,
  setImmediate: globalThis.setImmediate,
  clearTimeout: globalThis.clearTimeout,
  clearInterval: globalThis.clearInterval,
  clearImmediate: globalThis.clearImmediate,
};
export default timers;

export let { setTimeout, setInterval, setImmediate } = timers;
export let { clearTimeout, clearInterval, clearImmediate } = timers;

onSync(() => {
  ({ setTimeout, setInterval, setImmediate } = timers);
  ({ clearTimeout, clearInterval, clearImmediate } = timers);
});
