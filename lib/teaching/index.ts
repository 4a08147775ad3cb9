// Recipes of the literature that show the herd effect. They are for teaching, and not part of the other entry points.
export { SharedLock } from './shared-lock.js';
export { SingleNodeLock, type SingleNodeOptions } from './single-node-lock.js';
