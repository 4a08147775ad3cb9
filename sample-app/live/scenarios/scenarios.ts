import {
  ConflictException,
  Injectable,
  Logger,
  NotFoundException,
  NotImplementedException,
  type OnApplicationShutdown,
} from '@nestjs/common';
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
import { type Stage, Story } from './story.js';

const SCENARIOS: { readonly [S in Scenario]: (story: Story<S>) => Promise<void> } = {
  oversell,
  herd,
  'sleeping-holder': sleepingHolder,
  'killed-leader': killedLeader,
};

/** Milliseconds after which a scenario is aborted. */
const LONGEST = 120_000;

/** Plays scenarios, one at a time, on instances without faults. */
@Injectable()
export class Scenarios implements OnApplicationShutdown {
  playing?: Scenario;
  private playingUntil?: AbortController;
  private readonly logger = new Logger(Scenarios.name);
  private readonly stage: Stage;

  constructor(fleet: Fleet, sales: Sales, reports: ReportReader, store: EventStore) {
    this.stage = { fleet, sales, reports, store };
  }

  play(name: string): void {
    if (!Object.hasOwn(SCENARIOS, name)) {
      throw new NotFoundException(
        `there is no scenario ${name}; there are ${Object.keys(SCENARIOS).join(', ')}`,
      );
    }
    const scenario = name as Scenario;
    this.refuseWhilePlaying();
    if (this.stage.sales.running) throw new ConflictException('a sale is running');
    if (scenario === 'sleeping-holder' && !CAN_PAUSE) {
      throw new NotImplementedException('a process cannot be paused on Windows: it has no SIGSTOP');
    }
    this.playing = scenario;
    void this.run(scenario);
  }

  refuseWhilePlaying(): void {
    if (this.playing) throw new ConflictException(`the scenario ${this.playing} is being played`);
  }

  stop(): void {
    if (!this.playingUntil) throw new ConflictException('no scenario is being played');
    this.playingUntil.abort(new Error('it was stopped'));
  }

  onApplicationShutdown(): void {
    this.playingUntil?.abort();
  }

  private async run<S extends Scenario>(scenario: S): Promise<void> {
    this.playingUntil = new AbortController();
    const signal = AbortSignal.any([this.playingUntil.signal, AbortSignal.timeout(LONGEST)]);
    const story = new Story(scenario, this.stage, signal);
    const { fleet } = this.stage;
    try {
      await fleet.restore();
      await SCENARIOS[scenario](story);
    } catch (error) {
      story.abort();
      this.logger.warn(`the scenario ${scenario} was aborted: ${error}`);
    }
    await fleet
      .restore()
      .catch((error: Error) =>
        this.logger.warn(`after the scenario ${scenario}: ${error.message}`),
      );
    this.playing = this.playingUntil = undefined;
  }
}
