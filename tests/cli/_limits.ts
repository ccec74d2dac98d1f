import { openMailbox } from "../../mod.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";

/** Why tests of rate limits and timed pauses on a file are skipped; false when they run. */
export const lacksLimits: string | false = await whyNot();

async function whyNot(): Promise<string | false> {
  using folder = new TempFolder();
  await using mailbox = await openMailbox(`sqlite:${folder.file()}`);
  return mailbox.capabilities.rateLimit ? false : "the engine of files has no rate limits";
}
