import type { Warehouse } from './warehouse.js';

export declare class StockService {
  constructor(warehouse: Warehouse);
  take(): Promise<void>;
  left(): Promise<number>;
}
