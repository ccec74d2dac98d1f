/**
 * The engine of example 14. It stores all messages in one JSON file, and reads and writes the file in every
 * call. It is slow and simple, and a crash loses nothing. Use it in one process only: two processes would
 * overwrite each other's changes.
 *
 * `_file_rows.ts` has the file, `_file_queue.ts` stores and delivers, and `_file_settling.ts` settles.
 * `EngineMailbox` does the rest: it checks arguments, waits, settles each delivery once and replies.
 */

import {
  BASIC_CAPABILITIES,
  type Capabilities,
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  type StoredMessage,
} from "../src/engine.ts";
import { newRow, stateOf, statsOf } from "./_file_rows.ts";
import { SettlingQueue } from "./_file_settling.ts";

export class FileEngine extends SettlingQueue implements Engine<string> {
  // Turn on what the engine can do besides, and off what it cannot. The cases test every flag that is true.
  readonly capabilities: Capabilities = { ...BASIC_CAPABILITIES, longDelays: true };
  #dead: FileEngine | undefined;

  deadLetters(): FileEngine {
    return this.#dead ??= new FileEngine(this.path, `${this.name}.dead`, this.clock);
  }

  deadLetter(delivery: Delivery<string>, letter: Entry<string>): boolean {
    const [moved = false] = this.settle([delivery], (row, now, rows, queues) => {
      rows.splice(rows.indexOf(row), 1);
      (queues[`${this.name}.dead`] ??= []).push(newRow(letter, now));
    });
    this.deadLetters().wake();
    return moved;
  }

  peek(max: number, skip = 0): StoredMessage<string>[] {
    return this.change((rows, now) =>
      rows.slice(skip, skip + max).map((row) => ({ ...row, state: stateOf(row, now) }))
    );
  }

  count(): number {
    return this.change((rows) => rows.length);
  }

  stats(): EngineStats {
    return this.change((rows, now) => statsOf(rows, now));
  }

  purge(): number {
    return this.change((rows) => rows.splice(0).length);
  }

  close(): void {} // there is no connection
}
