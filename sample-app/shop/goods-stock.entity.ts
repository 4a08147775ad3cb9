import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

@Entity('goods_stock')
export class GoodsStock {
  @PrimaryGeneratedColumn()
  id!: number;

  @Column({ name: 'goods_no', length: 64, unique: true })
  goodsNo!: string;

  @Column()
  stock!: number;

  @Column({ name: 'is_active', default: true })
  isActive!: boolean;
}
