import { Module, type INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ZkModule } from 'nestjs-zookeeper';
import { EmbeddedZooKeeper } from 'nestjs-zookeeper/embedded';
import { Mutex, ZkClient } from 'nestjs-zookeeper/recipes';
import { TestZooKeeper } from 'nestjs-zookeeper/testing';
import request from 'supertest';
import { TillService } from '../src/till.service';
import { StockController } from '../src/stock.controller';
import { StockService } from '../src/stock.service';

type Transport = 'wire' | 'native';
const transports = process.env.TRANSPORTS!.split(',') as Transport[];

describe.each(transports)('the shop over the %s transport', (transport) => {
  @Module({
    imports: [ZkModule.forRoot({ connectString: 'zookeeper.example.com', transport })],
    controllers: [StockController],
    providers: [StockService, TillService],
  })
  class ShopModule {}

  let zookeeper: TestZooKeeper;
  let app: INestApplication;
  beforeAll(async () => {
    zookeeper = await TestZooKeeper.embedded();
    const module = await zookeeper
      .override(Test.createTestingModule({ imports: [ShopModule] }))
      .compile();
    app = module.createNestApplication();
    await app.init();
  });
  afterAll(async () => {
    await app.close();
    await zookeeper.stop();
  });

  const post = (path: string) => request(app.getHttpServer()).post(`/stock/${path}`);

  it('sells no piece twice', async () => {
    const tills = Array.from({ length: 10 }, (_, index) => `till-${index}`);
    const sales = tills.map((till) => post(`${till}/sell`).expect(201));
    const answers = (await Promise.all(sales)).map(({ body }) => body as Record<string, unknown>);
    expect(new Set(answers.map(({ piece }) => piece)).size).toBe(10);
    expect(answers.map(({ key }) => key)).toEqual(tills);
  });

  it('answers 409 while another holds the lock', async () => {
    await post('east/close').expect(201);
    const { body } = await post('east/sell').expect(409);
    expect((body as { code: string }).code).toBe('BUSY');
    await post('east/open').expect(201);
    await post('east/sell').expect(201);
  });

  it('shares its locks with a recipe', async () => {
    const client = await zookeeper.client({ transport });
    await new Mutex(client, '/locks/west').withLock(() => post('west/sell').expect(409));
    await post('west/sell').expect(201);
    await client.close();
  });
});

it('runs the embedded server by itself', async () => {
  const server = await EmbeddedZooKeeper.start();
  const client = new ZkClient({ connectString: server.connectString });
  await client.connect();
  await new Mutex(client, '/stock').withLock(({ fencingToken }) => {
    expect(typeof fencingToken).toBe('bigint');
  });
  await client.close();
  await server.stop();
});
