import type { IncomingMessage, ServerResponse } from 'node:http';
import { Controller, Get, type OnApplicationShutdown, Req, Res } from '@nestjs/common';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { ZookeeperInstrumentation } from 'nestjs-zookeeper/opentelemetry';

/** Metrics of this process's locks, for Prometheus. */
@Controller('metrics')
export class MetricsController implements OnApplicationShutdown {
  private readonly exporter = new PrometheusExporter({ preventServerStart: true });
  private readonly instrumentation = new ZookeeperInstrumentation({
    meterProvider: new MeterProvider({ readers: [this.exporter] }),
  });

  @Get()
  find(@Req() request: IncomingMessage, @Res() response: ServerResponse): void {
    this.exporter.getMetricsRequestHandler(request, response);
  }

  onApplicationShutdown(): void {
    this.instrumentation.disable();
  }
}
