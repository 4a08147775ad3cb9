export declare class StockService {
  take(): Promise<void>;
  left(): Promise<number>;
}
