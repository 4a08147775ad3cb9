/** Resources of Node that answer in real time. Output to a terminal or a parent process is none of them. */
const REAL =
  /^(TCP|UDP|TLS|Pipe|FSReq|FSEvent|StatWatcher|GetAddrInfo|GetNameInfo|Query|DNS|Process|Worker|MessagePort|HTTP|Http2|Zlib|Brotli)/i;

/** Notices that the code under test has started something which answers in real time. */
export class RealIo {
  #before: Map<string, number>;

  constructor() {
    // Node opens these streams when they are first used, which must not look like I/O of the code under test.
    void [process.stdout, process.stderr];
    this.#before = count();
  }

  /** Returns what is active now and was not at the last call, such as `TCPSocketWrap`. */
  started(): string | undefined {
    const before = this.#before;
    const now = (this.#before = count());
    for (const [kind, active] of now) if (active > (before.get(kind) ?? 0)) return kind;
    return undefined;
  }
}

function count(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    if (REAL.test(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}
