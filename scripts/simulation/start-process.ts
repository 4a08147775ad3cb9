import { startJobs, startReader } from './jobs.js';
import { startApplication } from './nest-jobs.js';
import type { StartProgram } from './workload.js';

/** Starts a process of the workload of locks: with Nest, without it, or one that only reads. */
export const startProcess: StartProgram = (context) => {
  const { name } = context.incarnation;
  const { nest, onlyReads } = context.setting.processes.find((each) => each.name === name)!;
  const start = nest ? startApplication : onlyReads ? startReader : startJobs;
  return start(context);
};
