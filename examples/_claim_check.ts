/** The codec of example 24: it stores large bodies in a folder, and the message carries a reference. */

import { readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { BodyCodec } from "../src/engine.ts";

/** For S3 or R2, replace the bodies of its methods. */
export class ClaimCheck implements BodyCodec {
  readonly #folder: string;
  readonly #maxLength: number;
  /** The names of the stored texts of decoded bodies. */
  readonly #names = new WeakMap<object, string>();

  constructor(folder: string, maxLength: number) {
    this.#folder = folder;
    this.#maxLength = maxLength;
  }

  /** Stores a large body first, so that no message ever refers to a body that does not exist. */
  async encode(body: unknown): Promise<string> {
    const text = JSON.stringify(body);
    if (text.length <= this.#maxLength) return `=${text}`;
    const name = crypto.randomUUID();
    const path = join(this.#folder, name);
    await writeFile(`${path}.part`, text);
    await rename(`${path}.part`, path);
    return `@${name}`;
  }

  async decode(text: string): Promise<unknown> {
    if (!text.startsWith("@")) return JSON.parse(text.slice(1));
    const name = text.slice(1);
    if (!/^[\da-f-]{36}$/.test(name)) throw new Error(`Invalid reference "${name}"`);
    const body = JSON.parse(await readFile(join(this.#folder, name), "utf8"));
    if (typeof body === "object" && body !== null) this.#names.set(body, name);
    return body;
  }

  /** Deletes the stored text of a body, if it has one. Call it after the acknowledgement. */
  async discard(body: object): Promise<void> {
    const name = this.#names.get(body);
    if (name !== undefined) await rm(join(this.#folder, name), { force: true });
  }

  /** Deletes the texts that are older than `ageMs`. */
  async sweep(ageMs: number, now: number = Date.now()): Promise<void> {
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      const { mtimeMs } = await stat(path);
      if (now - mtimeMs > ageMs) await rm(path, { force: true });
    }
  }
}
