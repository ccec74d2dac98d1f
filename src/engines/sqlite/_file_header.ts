import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { APPLICATION_ID, foreignFile } from "./_schema.ts";

const MAGIC = "SQLite format 3\0";
const APPLICATION_ID_AT = 68;
const HEADER_BYTES = 100;

/** Not a literal: a bundler for browsers would refuse it, also in a program without SQLite. */
const MODULE: string = "node:fs/promises";

/**
 * Refuses a file that is not ours before SQLite sees it: merely to open a database may finish what a
 * crash has left behind, and write. A file that is empty or not there yet is fine, if its folder is there;
 * with `create` false it has to be there.
 */
export async function refuseForeignFile(path: string, create = true): Promise<void> {
  const header = await readHeader(path);
  if (header === undefined && !create) {
    throw new MailboxConnectionError(`The SQLite file "${path}" is not there any more`);
  }
  if (header === undefined || header.byteLength === 0) return;
  const magic = new TextDecoder().decode(header.subarray(0, MAGIC.length));
  if (magic !== MAGIC || header.byteLength < HEADER_BYTES) throw foreignFile(path);
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
  if (view.getUint32(APPLICATION_ID_AT) !== APPLICATION_ID) throw foreignFile(path);
}

async function readHeader(path: string): Promise<Uint8Array | undefined> {
  const { open, stat } = await import(MODULE) as typeof import("node:fs/promises");
  try {
    const file = await open(path, "r");
    try {
      const { buffer, bytesRead } = await file.read(new Uint8Array(HEADER_BYTES), 0, HEADER_BYTES);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as { readonly code?: string }).code !== "ENOENT") throw error;
    // Without the folder a driver says only that it is unable to open the file.
    await stat(path.replace(/[^/\\]*$/, "") || ".");
    return undefined;
  }
}
