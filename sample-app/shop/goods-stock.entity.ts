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

  /**
   * The fencing token of the latest lock holder that wrote. Only the database compares it: SQLite's driver would
   * read the 64-bit integer as a double.
   */
  @Column({ type: 'bigint', default: 0, select: false })
  fence!: bigint;
}
