import {
  type ArgumentMetadata,
  BadRequestException,
  Injectable,
  type PipeTransform,
} from '@nestjs/common';

/** Lower case only: MySQL treats `phone` and `PHONE` as one row, but they would be two locks. */
@Injectable()
export class GoodsNoPipe implements PipeTransform<string, string> {
  transform(goodsNo: string): string {
    if (/^[a-z0-9-]{1,64}$/.test(goodsNo)) return goodsNo;
    throw new BadRequestException(
      'a goods number is 1 to 64 lower-case letters, digits and hyphens',
    );
  }
}

@Injectable()
export class StockPipe implements PipeTransform<unknown, number> {
  transform(stock: unknown): number {
    if (Number.isInteger(stock) && Number(stock) >= 0 && Number(stock) <= 1_000_000) {
      return stock as number;
    }
    throw new BadRequestException(
      'the body must be { "stock": n }, n a whole number from 0 to 1000000',
    );
  }
}

/** Checks a number in the path. Its parameter's name is in the message. */
@Injectable()
export class NumberPipe implements PipeTransform<string, number> {
  transform(text: string, { data: name }: ArgumentMetadata): number {
    if (/^\d{1,9}$/.test(text)) return Number(text);
    throw new BadRequestException(`${name} must be a whole number, but is ${JSON.stringify(text)}`);
  }
}
