import { type DynamicModule, Injectable, Module } from '@nestjs/common';
import { PrismaLibSql } from '@prisma/adapter-libsql';
import { DistributedLock, ZkModule } from 'nestjs-zookeeper';
import { fence } from 'nestjs-zookeeper/fence';
import { PrismaClient } from './generated/client.js';

@Injectable()
export class Shop {
  constructor(private readonly prisma: PrismaClient) {}

  /** Resolves with what is left. */
  @DistributedLock((id: string) => `goods-${id}`, { wait: 20_000 })
  async sell(id: string): Promise<number> {
    return this.prisma.$transaction(async (tx) => {
      // Before the first read. Rejects if a later holder of the lock was here.
      await fence(tx);
      const { stock } = await tx.goods.findUniqueOrThrow({ where: { id } });
      if (stock === 0) throw new Error('sold out');
      await tx.goods.update({ where: { id }, data: { stock: stock - 1 } });
      return stock - 1;
    });
  }
}

export const openDatabase = () =>
  new PrismaClient({ adapter: new PrismaLibSql({ url: `file:${process.env.DATABASE}` }) });

@Module({})
export class ShopModule {
  static with(prisma: PrismaClient): DynamicModule {
    const zookeeper = ZkModule.forRoot({
      connectString: process.env.ZK_CONNECT_STRING,
      namespace: 'prisma-fence-example',
      // Short, so that the lock of the paused process is free soon. In production take 10 s or more.
      sessionTimeout: 2_000,
    });
    return {
      module: ShopModule,
      imports: [zookeeper],
      providers: [Shop, { provide: PrismaClient, useValue: prisma }],
    };
  }
}
