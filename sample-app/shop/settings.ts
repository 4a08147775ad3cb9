export interface ShopSettings {
  /** `host:port,host:port/chroot`; without it the shop starts its own ZooKeeper. */
  zookeeper?: string;
  /** `mysql://…`, `mariadb://…`, `postgres://…`, or the name of an SQLite file. */
  database: string;
  /** Milliseconds between reading the stock and writing it, minimum and maximum. */
  delay: readonly [from: number, to: number];
  /** Milliseconds after which an unpaid order is cancelled. */
  payWithin: number;
  /** Session timeout in milliseconds: a dead instance keeps the lock and the leadership for this time. */
  sessionTimeout: number;
}

export const defaults = {
  delay: [0, 20],
  payWithin: 15 * 60_000,
  sessionTimeout: 10_000,
} as const satisfies Partial<ShopSettings>;

/** Namespace of the shop's locks and elections in ZooKeeper. */
export const NAMESPACE = 'seckill';

export const SHOP_SETTINGS = Symbol('SHOP_SETTINGS');
