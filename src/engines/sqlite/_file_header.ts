import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { APPLICATION_ID, foreignFile } from "./_schema.ts";

const MAGIC = "SQLite format 3\0";
const APPLICATION_ID_AT = 68;
const HEADER_BYTES = 100;

/** A variable, not a literal, because a bundler for browsers would reject the import. */
const MODULE: string = "node:fs/promises";

/**
 * Throws for a file of another program before SQLite opens it: opening a database may complete a crashed
 * transaction and write. An empty or missing file is accepted if its folder exists; with `create` false the
 * file has to exist.
 */
export async function checkFileHeader(path: string, create = true): Promise<void> {
  const header = await readHeader(path);
  if (header === undefined && !create) {
    throw new MailboxConnectionError(
      `The SQLite file "${path}" does not exist any more. Move it back, or open the mailbox again`,
    );
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
    // `stat` reports a missing folder; a driver would only say that it cannot open the file.
    await stat(path.replace(/[^/\\]*$/, "") || ".");
    return undefined;
  }
}
