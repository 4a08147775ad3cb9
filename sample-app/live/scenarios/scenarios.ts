import {
  ConflictException,
  Injectable,
  Logger,
  NotFoundException,
  NotImplementedException,
  type OnApplicationShutdown,
} from '@nestjs/common';
import { abortedAfter } from '../aborted-after.js';
import { EventStore } from '../event-store.js';
import type { Scenario } from '../events.js';
import { Fleet } from '../fleet.js';
import { ReportReader } from '../report-reader.js';
import { Sales } from '../sales.js';
import { CAN_PAUSE } from '../slot.js';
import { herd } from './herd.js';
import { killedLeader } from './killed-leader.js';
import { oversell } from './oversell.js';
import { sleepingHolder } from './sleeping-holder.js';
import { type ScenarioContext, ScenarioRun } from './scenario-run.js';

const SCENARIOS: { readonly [S in Scenario]: (run: ScenarioRun<S>) => Promise<void> } = {
  oversell,
  herd,
  'sleeping-holder': sleepingHolder,
  'killed-leader': killedLeader,
};

/** Milliseconds after which a scenario is aborted. */
const LONGEST = 120_000;

/** Runs scenarios, one at a time, on instances without faults at the start. */
@Injectable()
export class Scenarios implements OnApplicationShutdown {
  running?: Scenario;
  private stopping?: AbortController;
  private readonly logger = new Logger(Scenarios.name);
  private readonly context: ScenarioContext;

  constructor(fleet: Fleet, sales: Sales, reports: ReportReader, store: EventStore) {
    this.context = { fleet, sales, reports, store };
  }

  start(name: string): void {
    if (!Object.hasOwn(SCENARIOS, name)) {
      throw new NotFoundException(
        `there is no scenario ${name}; there are ${Object.keys(SCENARIOS).join(', ')}`,
      );
    }
    const scenario = name as Scenario;
    this.refuseWhileRunning();
    if (this.context.sales.running) throw new ConflictException('a sale is running');
    if (scenario === 'sleeping-holder' && !CAN_PAUSE) {
      throw new NotImplementedException('a process cannot be paused on Windows: it has no SIGSTOP');
    }
    this.running = scenario;
    void this.run(scenario);
  }

  refuseWhileRunning(): void {
    if (this.running) {
      throw new ConflictException(`the scenario ${this.running} is running: stop it first`);
    }
  }

  stop(): void {
    if (!this.stopping) throw new ConflictException('no scenario is running');
    this.stopping.abort(new Error('it was stopped'));
  }

  onApplicationShutdown(): void {
    this.stopping?.abort();
  }

  private async run<S extends Scenario>(scenario: S): Promise<void> {
    this.stopping = new AbortController();
    const signal = abortedAfter(LONGEST, this.stopping.signal);
    const run = new ScenarioRun(scenario, this.context, signal);
    const { fleet } = this.context;
    try {
      await fleet.restore();
      await SCENARIOS[scenario](run);
    } catch (error) {
      run.caption('aborted');
      this.logger.warn(`the scenario ${scenario} was aborted: ${error}`);
    }
    await fleet
      .restore()
      .catch((error: Error) =>
        this.logger.warn(`after the scenario ${scenario}: ${error.message}`),
      );
    this.running = this.stopping = undefined;
  }
}
