import type { Command } from "commander";
import type { Mailbox } from "../mod.ts";
import { confirm } from "./_confirm.ts";
import type { Io } from "./_io.ts";
import { counted, printer } from "./_print.ts";

/** What is to be deleted. */
export interface Purge {
  readonly mailbox: Pick<Mailbox<unknown>, "approximateCount" | "purge">;
  /** One of its messages, for people. */
  readonly thing: string;
  /** The mailbox that people know it by. */
  readonly name: string;
  /** Nobody is to be asked. */
  readonly yes: boolean;
}

/** Deletes everything, once a person has said so. */
export async function purge(io: Io, command: Command, what: Purge): Promise<void> {
  const { mailbox, thing, name, yes } = what;
  const found = counted(await mailbox.approximateCount(), thing);
  await confirm(io, `Delete ${found} of mailbox "${name}"?`, yes);
  const deleted = await mailbox.purge();
  printer(io, command).result({ deleted }, `deleted ${counted(deleted, thing)}`);
}
