/**
 * Counts the callers that are inside at a time. The first callers wait until `crowd` of them are
 * inside.
 */
export class Meter {
  most = 0;
  private inside = 0;
  private meet!: () => void;
  private readonly met = new Promise<void>((resolve) => (this.meet = resolve));

  constructor(private readonly crowd: number) {}

  async pass<T>(value?: T): Promise<T | undefined> {
    this.most = Math.max(this.most, ++this.inside);
    if (this.inside >= this.crowd) this.meet();
    await this.met;
    await new Promise(setImmediate);
    this.inside--;
    return value;
  }
}
