// What the pages import and this repository does without.
declare module '@opentelemetry/sdk-node' {
  export class NodeSDK {
    constructor(configuration: { instrumentations: unknown[] });
    start(): void;
  }
}
