import { Test } from '@nestjs/testing';
import { LockService } from 'nestjs-zookeeper';
import { TestZooKeeper } from 'nestjs-zookeeper/testing';
import { TillService } from './till.service';
import { pieces } from './pieces';
import { StockModule } from './stock.module';
import { StockService } from './stock.service';

jest.mock('./pieces', () => ({ pieces: jest.fn(() => 2) }));

describe.each(['real', 'fake'])('with %s timers', (timers) => {
  let zookeeper: TestZooKeeper;
  beforeEach(() => {
    if (timers === 'fake') jest.useFakeTimers();
    zookeeper = TestZooKeeper.inProcess();
  });
  afterEach(async () => {
    await zookeeper.stop();
    jest.useRealTimers();
  });

  it('sells no piece twice', async () => {
    const module = await zookeeper
      .override(Test.createTestingModule({ imports: [StockModule] }))
      .compile();
    await module.init();
    const stock = module.get(StockService);
    expect(await Promise.all([stock.take(), stock.take()])).toEqual([2, 1]);
    expect(pieces).toHaveBeenCalled();
    if (timers === 'fake') jest.advanceTimersByTime(3_600_000);
    expect(await stock.take()).toBe(0);
    await module.close();
  });
});

it('takes a fake in place of LockService', async () => {
  const zookeeper = TestZooKeeper.inProcess();
  const tryAcquire = jest.fn(() => Promise.resolve(undefined));
  const module = await zookeeper
    .override(Test.createTestingModule({ imports: [StockModule] }))
    .overrideProvider(LockService)
    .useValue({ tryAcquire })
    .compile();
  expect(await module.get(TillService).isOpen('east')).toBe(false);
  expect(tryAcquire).toHaveBeenCalledWith('east');
  await module.close();
  await zookeeper.stop();
});
