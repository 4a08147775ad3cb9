export * from './recipes/index.js';
export { CoordinationModule, type CoordinationModuleOptions } from './coordination.module.js';
export { CoordinationService, getCoordinationServiceToken } from './coordination.service.js';
