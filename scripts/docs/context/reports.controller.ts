export declare class ReportsController {}
