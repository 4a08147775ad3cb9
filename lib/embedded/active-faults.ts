/** What goes wrong on purpose; without a session, for every client. */
export type Fault =
  | { readonly kind: 'dropReply'; readonly op: number; readonly session: bigint | undefined }
  | { readonly kind: 'delay'; readonly ms: number; readonly session: bigint | undefined }
  | { readonly kind: 'cut'; readonly way: CutWay; readonly session: bigint | undefined }
  | { readonly kind: 'refuse' };

/**
 * Seen from the server: it does not hear, it is not heard, or both.
 *
 * @publicApi
 */
export type CutWay = 'requests' | 'replies' | 'both';

/** The faults in force, under the ids by which they are lifted. */
export class ActiveFaults {
  readonly #faults = new Map<number, Fault>();

  add(id: number, fault: Fault): void {
    this.#faults.set(id, fault);
  }

  lift(id: number): void {
    this.#faults.delete(id);
  }

  get refusesConnections(): boolean {
    return [...this.#faults.values()].some(({ kind }) => kind === 'refuse');
  }

  /** Whether what this session's client says arrives. */
  hears(session: bigint): boolean {
    for (const fault of this.#faults.values()) {
      if (fault.kind === 'cut' && fault.way !== 'replies' && concerns(fault, session)) return false;
    }
    return true;
  }

  /** Milliseconds until a reply of now leaves; Infinity while it cannot. */
  replyDelay(session: bigint): number {
    let delay = 0;
    for (const fault of this.#faults.values()) {
      if (fault.kind === 'cut' && fault.way !== 'requests' && concerns(fault, session)) {
        return Infinity;
      }
      if (fault.kind === 'delay' && concerns(fault, session)) delay += fault.ms;
    }
    return delay;
  }

  /** True once for each such fault. */
  losesReply(op: number, session: bigint): boolean {
    for (const [id, fault] of this.#faults) {
      if (fault.kind === 'dropReply' && fault.op === op && concerns(fault, session)) {
        return this.#faults.delete(id);
      }
    }
    return false;
  }
}

function concerns(fault: { readonly session: bigint | undefined }, session: bigint): boolean {
  return fault.session === undefined || fault.session === session;
}
