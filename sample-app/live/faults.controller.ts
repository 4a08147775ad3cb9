import { Body, Controller, HttpCode, Param, Post } from '@nestjs/common';
import { NumberPipe } from '../shop/input.js';
import { Fleet } from './fleet.js';
import { SecondsPipe } from './sale-order.js';
import { Scenarios } from './scenarios/scenarios.js';
import type { Slot } from './slot.js';

/** The faults of an instance, and their ends. A scenario that runs causes its own. */
@Controller('live/instances/:instance')
export class FaultsController {
  constructor(
    private readonly fleet: Fleet,
    private readonly scenarios: Scenarios,
  ) {}

  @Post('pause')
  @HttpCode(204)
  pause(@Param('instance', NumberPipe) number: number, @Body(SecondsPipe) seconds: number): void {
    this.slot(number).pause(seconds);
  }

  @Post('resume')
  @HttpCode(204)
  resume(@Param('instance', NumberPipe) number: number): void {
    this.slot(number).resume();
  }

  @Post('cut')
  @HttpCode(204)
  cut(@Param('instance', NumberPipe) number: number, @Body(SecondsPipe) seconds: number): void {
    this.slot(number).cut(seconds);
  }

  @Post('heal')
  @HttpCode(204)
  heal(@Param('instance', NumberPipe) number: number): void {
    this.slot(number).heal();
  }

  @Post('kill')
  @HttpCode(204)
  kill(@Param('instance', NumberPipe) number: number): void {
    this.slot(number).kill();
  }

  @Post('expire')
  @HttpCode(204)
  expire(@Param('instance', NumberPipe) number: number): Promise<void> {
    return this.slot(number).expire();
  }

  /** Resolves when the instance has started. */
  @Post('revive')
  @HttpCode(204)
  revive(@Param('instance', NumberPipe) number: number): Promise<void> {
    this.scenarios.refuseWhileRunning();
    return this.fleet.revive(number);
  }

  private slot(number: number): Slot {
    this.scenarios.refuseWhileRunning();
    return this.fleet.slot(number);
  }
}

/** The pause of ZooKeeper, and its end. */
@Controller('live/zookeeper')
export class ZookeeperFaultsController {
  constructor(
    private readonly fleet: Fleet,
    private readonly scenarios: Scenarios,
  ) {}

  @Post('pause')
  @HttpCode(204)
  pause(@Body(SecondsPipe) seconds: number): void {
    this.scenarios.refuseWhileRunning();
    this.fleet.pauseZookeeper(seconds);
  }

  @Post('resume')
  @HttpCode(204)
  resume(): void {
    this.scenarios.refuseWhileRunning();
    this.fleet.resumeZookeeper();
  }
}
