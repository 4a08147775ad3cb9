import type { INestApplication } from '@nestjs/common';
import {
  type ClientProxy,
  ClientProxyFactory,
  type MicroserviceOptions,
  Transport,
} from '@nestjs/microservices';
import { afterEach } from 'vitest';

/**
 * Returns a function that starts an application's TCP microservice and resolves with a client of
 * it. Clients are closed after each test.
 */
export function useTcpClients() {
  const open: ClientProxy[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((client) => client.close()));
  });
  return async (app: INestApplication): Promise<ClientProxy> => {
    const service = app.connectMicroservice<MicroserviceOptions>({
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port: 0 },
    });
    await app.startAllMicroservices();
    const { port } = service.unwrap<{ address(): { port: number } }>().address();
    const client = ClientProxyFactory.create({
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port },
    });
    open.push(client);
    return client;
  };
}
