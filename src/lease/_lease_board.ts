/** How many leases a board has room for. */
export const SLOTS = 1_024;

/** The longest receipt, in characters, all of which are ASCII. */
const LONGEST_RECEIPT = 104;

/** A slot: four numbers, a time and the receipt. A stamp of 0 says that the slot is empty. */
const STAMP = 0, POST = 1, BEATS = 2, LENGTH = 3, TIME = 4, RECEIPT = 6;
const SLOT_BYTES = 4 * RECEIPT + LONGEST_RECEIPT;

/**
 * A table of leases in memory that two threads share: what is written here is there for the other one
 * although this one is blocked in the next moment. One thread writes, the other reads; a slot that
 * changes while it is read has another stamp afterwards.
 */
export class LeaseBoard {
  readonly memory: SharedArrayBuffer;
  readonly #numbers: Int32Array;
  readonly #times: Float64Array;
  readonly #bytes: Uint8Array;
  #lastStamp = 0;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(SLOTS * SLOT_BYTES)) {
    this.memory = memory;
    this.#numbers = new Int32Array(memory);
    this.#times = new Float64Array(memory);
    this.#bytes = new Uint8Array(memory);
  }

  /** False when the receipt does not fit, and nothing was written. */
  write(slot: number, post: number, receipt: string, now: number): boolean {
    const { length } = receipt;
    if (length > LONGEST_RECEIPT) return false;
    const at = this.#at(slot);
    const begin = 4 * (at + RECEIPT);
    Atomics.store(this.#numbers, at + STAMP, 0);
    for (let i = 0; i < length; i++) {
      const code = receipt.charCodeAt(i);
      if (code > 0x7f) return false;
      this.#bytes[begin + i] = code;
    }
    this.#numbers[at + POST] = post;
    this.#numbers[at + LENGTH] = length;
    this.beat(slot);
    this.renew(slot, now);
    return true;
  }

  /** The lease begins anew. */
  renew(slot: number, now: number): void {
    this.#times[(this.#at(slot) + TIME) / 2] = now;
    this.#lastStamp = this.#lastStamp % 0x7fff_ffff + 1;
    Atomics.store(this.#numbers, this.#at(slot) + STAMP, this.#lastStamp);
  }

  /** The work on it is alive. */
  beat(slot: number): void {
    Atomics.add(this.#numbers, this.#at(slot) + BEATS, 1);
  }

  clear(slot: number): void {
    Atomics.store(this.#numbers, this.#at(slot) + STAMP, 0);
  }

  stamp(slot: number): number {
    return Atomics.load(this.#numbers, this.#at(slot) + STAMP);
  }

  beats(slot: number): number {
    return Atomics.load(this.#numbers, this.#at(slot) + BEATS);
  }

  /** When it was written or renewed, by the wall clock that all threads share. */
  since(slot: number): number {
    return this.#times[(this.#at(slot) + TIME) / 2]!;
  }

  /** Whose lease it is. */
  post(slot: number): number {
    return this.#numbers[this.#at(slot) + POST]!;
  }

  /** The receipt of the lease with this stamp, unless it is gone by now. */
  receipt(slot: number, stamp: number): string | undefined {
    const at = this.#at(slot);
    const begin = 4 * (at + RECEIPT);
    const codes = this.#bytes.slice(begin, begin + this.#numbers[at + LENGTH]!);
    return this.stamp(slot) === stamp ? String.fromCharCode(...codes) : undefined;
  }

  #at(slot: number): number {
    return slot * SLOT_BYTES / 4;
  }
}
