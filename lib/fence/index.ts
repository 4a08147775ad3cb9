export { fence, StaleLeaseError } from './fence.js';
export { type FenceDialect, fenceTable } from './sql.js';
