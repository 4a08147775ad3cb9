import { Column, Entity, Index, PrimaryGeneratedColumn } from 'typeorm';

type OrderState = 'unpaid' | 'paid' | 'closed';

@Entity('orders')
export class Order {
  @PrimaryGeneratedColumn()
  id!: number;

  @Index('orders_goods_no')
  @Column({ name: 'goods_no', length: 64 })
  goodsNo!: string;

  @Column({ type: 'varchar', length: 8, default: 'unpaid' })
  state!: OrderState;

  /** Milliseconds since 1970. */
  @Column({ name: 'placed_at', type: 'bigint' })
  placedAt!: number;
}
