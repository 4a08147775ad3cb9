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
   * The fencing token of the last holder of the lock who came to write. Only the database compares it: SQLite's driver
   * would read it as a double, too short for 64 bits.
   */
  @Column({ type: 'bigint', default: 0, select: false })
  fence!: bigint;
}
