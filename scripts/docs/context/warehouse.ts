export declare class Warehouse {
  reserve(): Promise<void>;
}
