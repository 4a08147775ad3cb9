import { channel } from 'node:diagnostics_channel';

/** The channel of `node:diagnostics_channel` on which the shop publishes the steps of its purchases. */
export const PURCHASE_CHANNEL = 'seckill:purchase';

export type PurchaseStep =
  | { readonly type: 'stock-read' | 'stock-written'; readonly stock: number }
  /** The fence refused the write. */
  | { readonly type: 'write-refused' };

export type PurchaseMessage = PurchaseStep & {
  readonly goodsNo: string;
  /** Number of the purchase in this process. */
  readonly purchase: number;
  readonly fencingToken: bigint | undefined;
};

const purchases = channel(PURCHASE_CHANNEL);
let count = 0;

/** Returns a function that publishes a step of one purchase. */
export function purchaseSteps(
  goodsNo: string,
  fencingToken: bigint | undefined,
): (step: PurchaseStep) => void {
  const purchase = ++count;
  return (step) => {
    if (!purchases.hasSubscribers) return;
    purchases.publish({ ...step, goodsNo, purchase, fencingToken } satisfies PurchaseMessage);
  };
}
