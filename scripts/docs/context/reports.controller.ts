export declare class ReportsController {
  write(month: string): Promise<unknown>;
}
