// The scripts' harness, with types.

const harness = (file: string) =>
  import(new URL(`../../scripts/faults/${file}.mjs`, import.meta.url).href);

export interface Child {
  onNews: (message: Record<string, unknown>) => void;
  readonly pid: number;
  readonly exited: Promise<unknown>;
  ask<T>(request: string, argument?: unknown): Promise<T>;
  pause(): void;
  resume(): void;
  kill(): Promise<void>;
}

export const { Child } = (await harness('child')) as {
  Child: new (id: string, program: string, args: string[]) => Child;
};

export const { ZOOKEEPER_JARS, CURATOR_JARS, missingJar } = (await harness('jars')) as {
  ZOOKEEPER_JARS: readonly string[];
  CURATOR_JARS: readonly string[];
  missingJar(jars: readonly string[]): string | undefined;
};

export interface Node {
  readonly port: number;
  readonly pid: number;
  readonly running: boolean;
  launch(): void;
  serving(): Promise<void>;
  mode(): Promise<string | undefined>;
  pause(): void;
  resume(): void;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

export const { RealServer, freePorts } = (await harness('real-server')) as {
  RealServer: {
    in(directory: string, port: number, configuration: string[], jvm?: string[]): Promise<Node>;
  };
  freePorts(count: number): Promise<number[]>;
};

export interface Ensemble {
  readonly nodes: readonly Node[];
  readonly ports: readonly number[];
  leader(): Promise<Node | undefined>;
  followers(): Promise<Node[]>;
  quorum(count?: number): Promise<void>;
  stop(): Promise<void>;
}

export const { Ensemble } = (await harness('ensemble')) as {
  Ensemble: { start(options: { tickTime: number }): Promise<Ensemble> };
};

/** In this thread, as no native client of this process is behind it. */
export interface PlainLink {
  readonly connectString: string;
  latency: number;
  cut(): void;
  dropReply(): void;
  silence(): void;
  speak(): void;
  mute(lasting?: boolean): void;
  deafen(lasting?: boolean): void;
  close(): void;
}

export const { Link: PlainLink } = (await harness('link')) as {
  Link: { to(port: number, options?: { latency?: number }): Promise<PlainLink> };
};
