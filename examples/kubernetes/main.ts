import { Controller, Get, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { DistributedLock, ZkModule } from 'nestjs-zookeeper';
import { ZkHealthIndicator } from 'nestjs-zookeeper/terminus';

@Controller()
export class OrdersController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly zookeeper: ZkHealthIndicator,
  ) {}

  @Post('orders/:id')
  @DistributedLock((id: string) => `order-${id}`)
  async pay(@Param('id') id: string): Promise<string> {
    return `${process.env.POD_NAME ?? process.pid} has paid order ${id}\n`;
  }

  @Get('health')
  @HealthCheck()
  check() {
    return this.health.check([() => this.zookeeper.isHealthy('zookeeper')]);
  }
}

@Module({
  imports: [
    ZkModule.forRoot({
      connectString: process.env.ZK_CONNECT_STRING,
      namespace: 'shop',
      sessionTimeout: Number(process.env.ZK_SESSION_TIMEOUT ?? 30_000),
    }),
    TerminusModule,
  ],
  controllers: [OrdersController],
  providers: [ZkHealthIndicator],
})
class AppModule {}

const app = await NestFactory.create(AppModule);
app.enableShutdownHooks();
await app.listen(process.env.PORT ?? 3000);
