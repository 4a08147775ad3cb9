export interface ShopSettings {
  /** `host:port,host:port/chroot`; without it the shop brings a ZooKeeper of its own. */
  zookeeper?: string;
  /** `mysql://…`, `mariadb://…`, `postgres://…`, or the name of an SQLite file. */
  database: string;
  /** How long a buyer takes between looking at the stock and paying: milliseconds, from and to. */
  delay: readonly [from: number, to: number];
  /** How long an order may stay unpaid, in milliseconds. */
  payWithin: number;
  /** How long a dead instance keeps the lock and the lead, in milliseconds. */
  sessionTimeout: number;
}

export const defaults = {
  delay: [0, 20],
  payWithin: 15 * 60_000,
  sessionTimeout: 10_000,
} as const satisfies Partial<ShopSettings>;

/** Of the shop's locks and elections in ZooKeeper. */
export const NAMESPACE = 'seckill';

export const SHOP_SETTINGS = Symbol('SHOP_SETTINGS');
