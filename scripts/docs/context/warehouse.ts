export declare class Warehouse {
  reserve(): Promise<void>;
  left(): Promise<number>;
}
