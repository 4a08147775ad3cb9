import { StockService } from './stock.service';

// As docs/guides/testing.md shows.
jest.mock('nestjs-zookeeper', () => ({
  ...jest.requireActual('nestjs-zookeeper'),
  DistributedLock: () => () => {},
}));

it('tests a class without its locks', async () => {
  expect(await new StockService().take()).toBe(100);
});

it('cannot load a class whose decorators are mocks', () => {
  jest.isolateModules(() => {
    jest.doMock('nestjs-zookeeper', () => jest.createMockFromModule('nestjs-zookeeper'));
    expect(() => require('./stock.service')).toThrow(TypeError);
  });
});
