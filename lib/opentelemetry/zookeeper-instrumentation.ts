import { createRequire } from 'node:module';
import { type MeterProvider, metrics, trace, type TracerProvider } from '@opentelemetry/api';
import { BadOptionError } from '../client/errors.js';
import { checkOptions } from '../client/validation.js';
import { measure } from './metrics.js';
import { traceLocks } from './spans.js';

const NAME = 'nestjs-zookeeper';
const { version: VERSION } = createRequire(import.meta.url)('nestjs-zookeeper/package.json') as {
  version: string;
};

/**
 * What a {@link ZookeeperInstrumentation} takes.
 *
 * @publicApi
 */
export interface ZookeeperInstrumentationConfig {
  /** False waits for {@link ZookeeperInstrumentation.enable}. Default true. */
  enabled?: boolean;
  /** Default: the global one. */
  tracerProvider?: TracerProvider;
  /**
   * Default: the global one of the time when it is enabled. Until one is registered there is none: enable
   * it after that, or hand it over here.
   */
  meterProvider?: MeterProvider;
}

/**
 * Spans and metrics of all that this process waits for, holds and leads, whatever the connection. Has
 * the shape of an OpenTelemetry `Instrumentation`: `NodeSDK` and `registerInstrumentations` take it. It
 * patches nothing, so it need not be there before the library is loaded: only before what it is to tell of.
 *
 * @throws BadOptionError
 * @publicApi
 */
export class ZookeeperInstrumentation {
  readonly instrumentationName = NAME;
  readonly instrumentationVersion = VERSION;
  private config: ZookeeperInstrumentationConfig;
  private stops: (() => void)[] = [];

  constructor(config: ZookeeperInstrumentationConfig = {}) {
    this.config = checked(config);
    if (config.enabled ?? true) this.enable();
  }

  /** Idempotent. */
  enable(): void {
    if (this.stops.length > 0) return;
    const { tracerProvider = trace, meterProvider = metrics } = this.config;
    this.stops = [
      traceLocks(tracerProvider.getTracer(NAME, VERSION)),
      measure(meterProvider.getMeter(NAME, VERSION)),
    ];
  }

  /** From now on it costs nothing. What is waited for and held at the time is not told to its end. Idempotent. */
  disable(): void {
    for (const stop of this.stops.splice(0)) stop();
  }

  /** Called by `registerInstrumentations` and `NodeSDK`. */
  setTracerProvider(tracerProvider: TracerProvider): void {
    this.setConfig({ ...this.config, tracerProvider });
  }

  /** Called by `registerInstrumentations` and `NodeSDK`. */
  setMeterProvider(meterProvider: MeterProvider): void {
    this.setConfig({ ...this.config, meterProvider });
  }

  /** As it was made or set. */
  getConfig(): ZookeeperInstrumentationConfig {
    return this.config;
  }

  /** Of its providers. `enabled` is for the constructor. */
  setConfig(config: ZookeeperInstrumentationConfig): void {
    this.config = checked(config);
    if (this.stops.length === 0) return;
    this.disable();
    this.enable();
  }
}

function checked(config: ZookeeperInstrumentationConfig): ZookeeperInstrumentationConfig {
  const { enabled, tracerProvider, meterProvider } = checkOptions(config, [
    'enabled',
    'tracerProvider',
    'meterProvider',
  ]);
  if (enabled !== undefined && typeof enabled !== 'boolean') {
    throw new BadOptionError('enabled', enabled, 'true or false');
  }
  if (tracerProvider !== undefined && typeof tracerProvider.getTracer !== 'function') {
    throw new BadOptionError('tracerProvider', tracerProvider, 'a TracerProvider');
  }
  if (meterProvider !== undefined && typeof meterProvider.getMeter !== 'function') {
    throw new BadOptionError('meterProvider', meterProvider, 'a MeterProvider');
  }
  return config;
}
