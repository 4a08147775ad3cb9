const INTERVAL = 1_000;
const TERMINAL_INTERVAL = 100;

/** Shows the progress on stderr: one changing line on a terminal, otherwise one line per second. */
export class Progress {
  private lastUpdate = -Infinity;
  private open = false;

  constructor(private readonly out: NodeJS.WriteStream = process.stderr) {}

  line(text: string): void {
    this.out.write(`${this.open ? '\r\x1b[K' : ''}${text}\n`);
    this.open = false;
  }

  update(text: string): void {
    const now = performance.now();
    if (now - this.lastUpdate < (this.out.isTTY ? TERMINAL_INTERVAL : INTERVAL)) return;
    this.lastUpdate = now;
    if (!this.out.isTTY) return this.line(text);
    this.out.write(`\r\x1b[K${text}`);
    this.open = true;
  }
}
