import assert from 'node:assert/strict';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import type { INestApplication } from '@nestjs/common';
import { Args, GraphQLModule, Int, Mutation, Query, Resolver } from '@nestjs/graphql';
import { MercuriusDriver, type MercuriusDriverConfig } from '@nestjs/mercurius';
import { currentLease, DistributedLock, LeaderOnly } from 'nestjs-zookeeper';
import { checkHandlers, Refusal } from '../support/handlers.js';
import { type Check, ELECTION, listenOnAnyPort, withInstances } from '../support/instances.js';
import { Shop } from '../support/shop.js';

let shop: Shop;

@Resolver()
class Goods {
  @Query(() => String)
  @DistributedLock('catalogue', { mode: 'read' })
  async read() {
    return currentLease()!.key;
  }

  @Mutation(() => String)
  @DistributedLock((id: number) => `goods-${id}`)
  async sell(@Args('id', { type: () => Int }) _id: number) {
    return shop.sell();
  }

  @DistributedLock('stock', { wait: 0 })
  @Mutation(() => String)
  async attempt(@Args('id', { type: () => Int }) _id: number) {
    return shop.sell();
  }

  @Mutation(() => String)
  @DistributedLock('stock', { wait: 50 })
  async patience(@Args('id', { type: () => Int }) _id: number) {
    return shop.sell();
  }

  @Mutation(() => String)
  @LeaderOnly(ELECTION)
  async lead(@Args('id', { type: () => Int }) _id: number) {
    return shop.lead();
  }

  @Mutation(() => String)
  @DistributedLock('stock')
  async hold(@Args('id', { type: () => Int }) _id: number) {
    return shop.hold();
  }
}

interface Answer {
  data?: Record<string, unknown> | null;
  errors?: { extensions?: Record<string, unknown> }[];
}

const apollo = GraphQLModule.forRoot<ApolloDriverConfig>({
  driver: ApolloDriver,
  autoSchemaFile: true,
});
const mercurius = GraphQLModule.forRoot<MercuriusDriverConfig>({
  driver: MercuriusDriver,
  autoSchemaFile: true,
});

async function mutate(app: INestApplication, operation: string, signal?: AbortSignal) {
  const { data, errors } = await ask(app, `mutation { result: ${operation}(id: 7) }`, signal);
  if (!errors) return data!.result;
  const { code, status, retryAfter } = errors[0].extensions ?? {};
  throw new Refusal(code, { status, ...(retryAfter ? { retryAfter } : {}) });
}

async function ask(app: INestApplication, query: string, signal?: AbortSignal): Promise<Answer> {
  const response = await fetch(`${await app.getUrl()}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
    signal,
  });
  return (await response.json()) as Answer;
}

/** One request may hold as many locks as it has fields. */
async function readsInParallel(app: INestApplication): Promise<void> {
  const fields = Array.from({ length: 12 }, (_, index) => `field${index}: read`);
  const { data } = await ask(app, `{ ${fields.join(' ')} }`);
  assert.deepEqual(Object.values(data!), Array<string>(12).fill('catalogue'));
}

export const check: Check = async (platform) => {
  for (const driver of platform === 'express' ? [apollo] : [apollo, mercurius]) {
    shop = new Shop();
    const metadata = { imports: [driver], providers: [Goods] };
    await withInstances(platform, metadata, listenOnAnyPort, ({ one }) => readsInParallel(one));
    await checkHandlers(platform, {
      shop,
      metadata,
      listen: listenOnAnyPort,
      call: mutate,
      detectsDisconnect: true,
      refusals: {
        BUSY: { status: 409 },
        TIMEOUT: { status: 503, retryAfter: 1 },
        NOT_LEADER: { status: 503, retryAfter: 1 },
        LEASE_LOST: { status: 500 },
      },
    });
  }
};
