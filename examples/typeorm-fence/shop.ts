import { Injectable, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import libsql from 'libsql';
import { DistributedLock, ZkModule } from 'nestjs-zookeeper';
import { fence, fenceTable } from 'nestjs-zookeeper/fence';
import { Column, DataSource, Entity, PrimaryColumn } from 'typeorm';
import type { MigrationInterface, QueryRunner } from 'typeorm';

@Entity()
export class Goods {
  @PrimaryColumn()
  id!: string;

  @Column()
  stock!: number;
}

@Injectable()
export class Shop {
  constructor(private readonly database: DataSource) {}

  /** Resolves with what is left. */
  @DistributedLock((id: string) => `goods-${id}`, { wait: 20_000 })
  async sell(id: string): Promise<number> {
    return this.database.transaction(async (manager) => {
      // Before the first read. Rejects if a later holder of the lock was here.
      await fence(manager);
      const { stock } = await manager.findOneByOrFail(Goods, { id });
      if (stock === 0) throw new Error('sold out');
      await manager.update(Goods, { id }, { stock: stock - 1 });
      return stock - 1;
    });
  }
}

export class CreateTables1795000000000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query('CREATE TABLE goods (id text PRIMARY KEY, stock integer NOT NULL)');
    await runner.query("INSERT INTO goods VALUES ('phone', 10)");
    await runner.query(fenceTable('sqlite'));
  }

  async down(): Promise<void> {}
}

@Module({
  imports: [
    ZkModule.forRootAsync({
      useFactory: () => ({
        connectString: process.env.ZK_CONNECT_STRING,
        namespace: 'typeorm-fence-example',
        // Short, so that the lock of the paused process is free soon. In production take 10 s or more.
        sessionTimeout: 2_000,
      }),
    }),
    TypeOrmModule.forRootAsync({
      useFactory: () => ({
        type: 'better-sqlite3',
        driver: libsql, // A package with the interface of better-sqlite3.
        database: process.env.DATABASE!,
        entities: [Goods],
        migrations: [CreateTables1795000000000],
        migrationsRun: true,
        retryAttempts: 0,
      }),
    }),
  ],
  providers: [Shop],
})
export class ShopModule {}
