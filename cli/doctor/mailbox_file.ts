// A mailbox that is a file. The doctor does not make one that is not there yet.

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { openMailbox, silentLog } from "../../mod.ts";
import type { MailboxUrl } from "../../src/engines/mailbox_url.ts";
import { CliError, explain } from "../_errors.ts";
import { type Finding, ok, problem } from "./finding.ts";

/** What there is to say of the file before it is opened; undefined when it can be. */
export async function checkFile(url: MailboxUrl): Promise<Finding | undefined> {
  const file = fileOf(url);
  if (file === undefined) return undefined;
  const barred = barrier(file);
  if (barred !== undefined || existsSync(file)) return barred;
  await tryOut(url.href, file);
  return ok("engine", `${file} will be made when the worker starts`);
}

/** The file of a mailbox that is one. */
function fileOf({ scheme, path }: MailboxUrl): string | undefined {
  if (scheme !== "sqlite" && scheme !== "denokv" || path === "") return undefined;
  return resolve(path.startsWith("///") ? path.slice(2) : path);
}

/** What keeps the file from being written or made. */
function barrier(file: string): Finding | undefined {
  const folder = dirname(file);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    return problem("engine", {
      found: `there is no folder ${folder}`,
      why: "the file of the mailbox is to be made there",
      change: `mkdir -p ${folder}`,
    });
  }
  // Beside the file there are others while it is open.
  const barred = [folder, file].find((place) => existsSync(place) && !mayWrite(place));
  if (barred === undefined) return undefined;
  return problem("engine", {
    found: `${barred} cannot be written to`,
    why: "the mailbox is a file there, with others beside it while it is open",
    change: `give this user the right to write to ${barred}`,
  });
}

/** The same mailbox for a moment elsewhere: whether there is a driver, and whether the URL is good. */
async function tryOut(url: string, file: string): Promise<void> {
  const [place = "", query] = url.split(/\?(.*)/s);
  const folder = await mkdtemp(join(tmpdir(), "lastcall-doctor-"));
  const elsewhere = join(folder, "mailbox");
  try {
    const path = encodeURI(elsewhere).replaceAll("?", "%3F").replaceAll("#", "%23");
    const scheme = place.slice(0, place.indexOf(":"));
    const there = `${scheme}:${path}${query === undefined ? "" : `?${query}`}`;
    await (await openMailbox(there, { log: silentLog })).close();
  } catch (error) {
    const { code, message } = explain(error);
    throw new CliError(code, message.replaceAll(elsewhere, file), { cause: error });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false; // which is the answer
  }
}
