export declare class Stock {
  deduct(id: string, signal: AbortSignal): Promise<void>;
}
