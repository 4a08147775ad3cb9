import type { LoggerService } from '@nestjs/common';
import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import type { Term } from '../recipes/index.js';
import { type LeaderService, TermHolding } from '../services/leader.service.js';
import { type DiscoveredMethod, discoveredMethods } from './discovered-methods.js';
import { type ElectionListener, listenersOf } from './election-listeners.js';
import { MisuseError } from './errors.js';
import { LeaderSpec } from './leader-spec.js';
import { specsOf } from './method-metadata.js';

type Listening = DiscoveredMethod & { readonly listener: ElectionListener };

/** What an application's decorators say of elections on one connection. */
export class Elections {
  private readonly names = new Set<string>();
  private readonly listening: Listening[] = [];

  /** @throws MisuseError where a listener has no instance to be called on */
  constructor(connection: string, discovery: DiscoveryService, scanner: MetadataScanner) {
    for (const found of discoveredMethods(discovery, scanner)) {
      for (const spec of specsOf(found.method)) {
        if (spec instanceof LeaderSpec && spec.connection === connection) {
          this.names.add(spec.election);
        }
      }
      for (const listener of listenersOf(found.method)) {
        if (listener.connection === connection) this.listen({ ...found, listener });
      }
    }
  }

  /** Takes part in all of them, and calls the listeners from now on. */
  join(leaders: LeaderService, logger: LoggerService): void {
    for (const election of this.names) leaders.isLeader(election);
    for (const listening of this.listening) follow(listening, leaders, logger);
  }

  private listen(listening: Listening): void {
    const { host, name, listener } = listening;
    if (host.isTransient || !host.isDependencyTreeStatic()) {
      throw new MisuseError(
        `${listener.decorator} on ${host.name}.${name}: its provider is made anew for each request or consumer, so that there is none to call when an election is decided. Give it the default scope`,
      );
    }
    const again = this.listening.some(
      (other) =>
        other.host.instance === host.instance && other.name === name && other.listener === listener,
    );
    if (!again) this.listening.push(listening);
  }
}

function follow(listening: Listening, leaders: LeaderService, logger: LoggerService): void {
  const { host, name, listener } = listening;
  const { election, decorator } = listener;
  const call = async (term: Term): Promise<void> => {
    try {
      await (host.instance as Record<string, (term: Term) => unknown>)[name]!(term);
    } catch (error) {
      const stack = error instanceof Error ? error.stack : undefined;
      logger.error(`${decorator} ${host.name}.${name} failed: ${String(error)}`, stack);
    }
  };
  let present: Term | undefined;
  leaders.changes(election).subscribe(({ term }) => {
    const past = term ? undefined : present;
    present = term;
    const concerned = decorator === '@OnElected' ? term : past;
    if (concerned) void new TermHolding(concerned).run(() => call(concerned));
  });
}
