// What the pages import and this repository does without.
declare module '@opentelemetry/sdk-node' {
  export class NodeSDK {
    constructor(configuration: { instrumentations: unknown[] });
    start(): void;
  }
}

// Prisma generates its client from a schema.
declare module '@prisma/client' {
  interface Goods {
    update(args: {
      where: { id: number };
      data: { left: { decrement: number } };
    }): Promise<unknown>;
  }
  export class PrismaClient {
    $transaction<T>(fn: (tx: { goods: Goods }) => Promise<T>): Promise<T>;
  }
}
