// Files and folders that a process may not use as it wants.

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname } from "node:path";
import { SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { TempFolder } from "./_folder.ts";

/** The root user may do anything unless these capabilities are taken from it. */
const AS_OTHERS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];

/** What starts a process that permissions apply to, and why there is none. */
export const unprivileged: { readonly wrapper: readonly string[]; readonly skip: string | false } =
  userInfo().uid === 0
    ? { wrapper: AS_OTHERS, skip: succeeds(AS_OTHERS) ? false : "setpriv cannot limit root here" }
    : { wrapper: [], skip: userInfo().uid < 0 ? "this system has no permissions of files" : false };

function succeeds([program = "", ...args]: readonly string[]): boolean {
  try {
    execFileSync(program, [...args, "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Mailbox files, each closed in its way: by its own permissions, or by those of its folder. */
export class ClosedFiles implements Disposable {
  readonly #folder = new TempFolder();

  static async make(): Promise<ClosedFiles> {
    const files = new ClosedFiles();
    for (const folder of ["closed", "readonly", "folder.db"]) mkdirSync(files.path(folder));
    const there = ["secret.db", "readonly.db", "closed/jobs.db", "readonly/jobs.db"];
    for (const name of there) {
      await using mailbox = await SqliteMailbox.open<unknown>(files.path(name));
      await mailbox.send(1);
    }
    chmodSync(files.path("secret.db"), 0o000);
    chmodSync(files.path("readonly.db"), 0o444);
    chmodSync(files.path("closed"), 0o000);
    chmodSync(files.path("readonly"), 0o555);
    return files;
  }

  path(name: string): string {
    return this.#folder.file(name);
  }

  get folder(): string {
    return dirname(this.path("secret.db"));
  }

  [Symbol.dispose](): void {
    for (const folder of ["closed", "readonly"]) chmodSync(this.path(folder), 0o755);
    this.#folder[Symbol.dispose]();
  }
}
