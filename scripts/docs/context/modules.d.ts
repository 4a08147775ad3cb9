// What the pages import and this repository does without.
declare module '@opentelemetry/sdk-node' {
  export class NodeSDK {
    constructor(configuration: {
      instrumentations: import('nestjs-zookeeper/opentelemetry').ZookeeperInstrumentation[];
      metricReaders: import('@opentelemetry/sdk-metrics').MetricReader[];
    });
    start(): void;
  }
}

declare module 'zod' {
  interface Schema<T> {
    int(): this;
    positive(): this;
    readonly '~standard': import('nestjs-zookeeper/coordination').StandardSchema<T>['~standard'];
  }
  export const z: {
    number(): Schema<number>;
    object<T extends Record<string, Schema<unknown>>>(
      shape: T,
    ): Schema<{ [K in keyof T]: T[K] extends Schema<infer V> ? V : never }>;
  };
  export namespace z {
    export type infer<S> = S extends Schema<infer T> ? T : never;
  }
}
