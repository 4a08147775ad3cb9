import { Controller, Get, UseFilters } from '@nestjs/common';
import { LeaderService, ZkExceptionFilter } from 'nestjs-zookeeper';
import { CLOSE_UNPAID } from './unpaid-orders.service.js';

@Controller('leader')
@UseFilters(ZkExceptionFilter)
export class LeaderController {
  constructor(private readonly leaders: LeaderService) {}

  @Get()
  async find() {
    const participants = await this.leaders.participants(CLOSE_UNPAID);
    return {
      leader: participants[0]?.id ?? null,
      isLeader: this.leaders.isLeader(CLOSE_UNPAID),
      participants: participants.map(({ id, since }) => ({ id, since })),
    };
  }
}
