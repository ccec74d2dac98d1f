import type { PostgresLink } from "./postgres_link.ts";
import { type Call, PostgresDelivery, type Row } from "./_settlements.ts";

/** Looks at the messages of a queue, and finds, cancels and delivers one by its id. */
export class Lookup {
  readonly #queue: string;
  readonly #link: PostgresLink;
  readonly #call: Call;

  /** `call` wakes the receivers when a statement has unblocked messages. */
  constructor(queue: string, link: PostgresLink, call: Call) {
    this.#queue = queue;
    this.#link = link;
    this.#call = call;
  }

  async peek(max: number, skip: number): Promise<PostgresDelivery[]> {
    const rows = await this.#call("peek", "peek", [this.#queue, `${max}`, `${skip}`]);
    return rows.map((row) => new PostgresDelivery(row as unknown as Row, ""));
  }

  async find(id: string): Promise<PostgresDelivery | undefined> {
    const [row] = await this.#call("find", "read", [this.#queue, id]);
    return row && new PostgresDelivery(row as unknown as Row, "");
  }

  async cancel(id: string): Promise<boolean> {
    const { wakeUps, channel } = this.#link;
    const parameters = [this.#queue, id, channel, wakeUps.sender];
    const [row] = await this.#call("cancel", "cancel", parameters);
    if (row!.held === true) wakeUps.cancelled(this.#queue, id);
    return row!.cancelled === true;
  }

  async deliverNow(id: string): Promise<boolean> {
    const [row] = await this.#call("deliverNow", "deliver", [this.#queue, id]);
    if (row !== undefined) this.#link.wake(this.#queue);
    return row !== undefined;
  }
}
