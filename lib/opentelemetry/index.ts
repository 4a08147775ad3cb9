import { type MeterProvider, metrics, trace, type TracerProvider } from '@opentelemetry/api';
import { BadOptionError } from '../client/errors.js';
import { BOOLEAN, checkOptions, uncheckedRules } from '../client/validation.js';
import { measure } from './metrics.js';
import { traceLocks } from './spans.js';

const NAME = 'nestjs-zookeeper';
// Of package.json, which does not exist beside a bundle; npm run check:package compares them.
const VERSION = '0.1.0';

/**
 * Options of {@link ZookeeperInstrumentation}.
 *
 * @publicApi
 */
export interface ZookeeperInstrumentationConfig {
  /** False records nothing until {@link ZookeeperInstrumentation.enable} is called. Default true. */
  enabled?: boolean | undefined;
  /** The provider of the spans. Default: the global provider. */
  tracerProvider?: TracerProvider | undefined;
  /**
   * The provider of the metrics. Register the global provider before {@link ZookeeperInstrumentation.enable} is called, or
   * pass the provider here. Default: the global provider at the time of that call.
   */
  meterProvider?: MeterProvider | undefined;
}

/**
 * Records spans and metrics of all waits, holds and leaderships of this process, on all connections. Has the
 * interface of an OpenTelemetry `Instrumentation`, for `NodeSDK` and `registerInstrumentations`. It
 * patches no module, so it may be created after the library is loaded.
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

  /** Starts recording. Idempotent. */
  enable(): void {
    if (this.stops.length > 0) return;
    const { tracerProvider = trace, meterProvider = metrics } = this.config;
    this.stops = [
      traceLocks(tracerProvider.getTracer(NAME, VERSION)),
      measure(meterProvider.getMeter(NAME, VERSION)),
    ];
  }

  /** Stops recording; waits and holds that have not ended are not recorded to their end. Idempotent. */
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

  /** Returns the options of the constructor or of the latest {@link setConfig}. */
  getConfig(): ZookeeperInstrumentationConfig & {
    // OpenTelemetry's type does not accept undefined under exactOptionalPropertyTypes.
    enabled?: boolean;
  } {
    return this.config;
  }

  /** Replaces the providers. `enabled` has an effect only in the constructor. */
  setConfig(config: ZookeeperInstrumentationConfig): void {
    this.config = checked(config);
    if (this.stops.length === 0) return;
    this.disable();
    this.enable();
  }
}

function checked(config: ZookeeperInstrumentationConfig): ZookeeperInstrumentationConfig {
  const { tracerProvider, meterProvider } = checkOptions(config, {
    enabled: BOOLEAN,
    ...uncheckedRules('tracerProvider', 'meterProvider'),
  });
  if (tracerProvider !== undefined && typeof tracerProvider.getTracer !== 'function') {
    throw new BadOptionError('tracerProvider', tracerProvider, 'a TracerProvider');
  }
  if (meterProvider !== undefined && typeof meterProvider.getMeter !== 'function') {
    throw new BadOptionError('meterProvider', meterProvider, 'a MeterProvider');
  }
  return config;
}
