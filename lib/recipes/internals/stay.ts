import type { Company } from './company.js';
import type { Tenure } from './tenure.js';

/**
 * A free lock's znode that stays for a while, for the next caller of this process to have it without a
 * round trip: until its time is up, somebody comes who wants it elsewhere, or asks for it.
 */
export class Stay {
  active = false;
  private until = 0;
  /** One for many stays: most of them end long before their time is up. */
  private timer: NodeJS.Timeout | undefined;
  /** When it looks. */
  private due = Infinity;

  constructor(
    private readonly tenure: Tenure,
    private readonly company: Company,
  ) {
    void tenure.over.then(() => {
      this.active = false;
      clearTimeout(this.timer);
      company.leave();
    });
  }

  /** Of one that may be granted on. @param linger milliseconds; 0: it is over at once */
  begin(linger: number): void {
    if (linger === 0) return void this.tenure.giveBack();
    this.active = true;
    this.until = performance.now() + linger;
    if (this.until < this.due) this.lookIn(linger);
    this.tenure.watchNodes();
    this.yieldToOthers();
  }

  end(): void {
    this.active = false;
  }

  yieldToOthers(): void {
    const { company } = this;
    if (!this.active || company.alone) return;
    void company.look().then(() => {
      if (this.active && company.others) void this.tenure.giveBack();
    });
  }

  private lookIn(milliseconds: number): void {
    clearTimeout(this.timer);
    this.due = performance.now() + milliseconds;
    this.timer = setTimeout(() => {
      this.due = Infinity;
      if (!this.active) return;
      const left = this.until - performance.now();
      if (left > 0) this.lookIn(left);
      else void this.tenure.giveBack();
    }, milliseconds).unref();
  }
}
