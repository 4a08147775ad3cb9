import {
  Injectable,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import { ZkClient } from 'nestjs-zookeeper';
import { probe } from '../seckill/probe.js';
import { EventStore } from './event-store.js';

/** Milliseconds without an answer after which the ensemble counts as silent. */
const SILENT_AFTER = 1_000;
const CHECK_INTERVAL = 100;

/** Observes whether ZooKeeper answers the server of the page. */
@Injectable()
export class Ensemble implements OnApplicationBootstrap, OnApplicationShutdown {
  answers = false;
  confirmedAt?: number;
  private readonly closing = new AbortController();
  private timer?: NodeJS.Timeout;

  constructor(
    private readonly client: ZkClient,
    private readonly store: EventStore,
  ) {}

  onApplicationBootstrap(): void {
    const { signal } = this.closing;
    void probe(this.client, (sentAt) => this.confirm(this.store.timeOf(sentAt)), signal);
    this.timer = setInterval(() => this.check(), CHECK_INTERVAL);
  }

  onApplicationShutdown(): void {
    this.closing.abort();
    clearInterval(this.timer);
  }

  private confirm(at: number): void {
    this.confirmedAt = at;
    this.check();
  }

  private check(): void {
    const { confirmedAt = -Infinity } = this;
    const answers = this.store.now() - confirmedAt < SILENT_AFTER;
    if (answers === this.answers) return;
    this.answers = answers;
    this.store.add({ type: 'ensemble', answers });
  }
}
