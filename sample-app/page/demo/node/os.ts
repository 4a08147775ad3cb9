import { onSync } from './module.js';

const os = { hostname: () => 'browser', uptime: () => performance.now() / 1000 };
export default os;

export let { hostname, uptime } = os;

onSync(() => {
  ({ hostname, uptime } = os);
});
