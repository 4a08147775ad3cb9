import { Column, Entity, Index, PrimaryGeneratedColumn } from 'typeorm';

@Entity('orders')
export class Order {
  @PrimaryGeneratedColumn()
  id!: number;

  @Index('orders_goods_no')
  @Column({ name: 'goods_no', length: 64 })
  goodsNo!: string;
}
