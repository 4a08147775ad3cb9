import { setImmediate as nextTurn } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';

/** Runs transactions; on SQLite one after the other, because a process has one connection. */
@Injectable()
export class Transactions {
  private previous: Promise<unknown> = Promise.resolve();

  constructor(private readonly dataSource: DataSource) {}

  async run<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    const transaction = () => this.dataSource.transaction(work);
    if (this.dataSource.options.type !== 'better-sqlite3') return transaction();
    const result = this.previous.then(transaction);
    // The driver is synchronous: without a pause, a long queue would block the ZooKeeper client.
    this.previous = result.catch(() => undefined).then(() => nextTurn());
    return result;
  }
}
