import { StockService } from './stock.service';

// As docs/guides/testing.md shows.
jest.mock('nestjs-zookeeper', () => ({
  ...jest.requireActual('nestjs-zookeeper'),
  DistributedLock: () => () => {},
}));

it('tests a class without its locks', async () => {
  expect(await new StockService().take()).toBe(100);
});
