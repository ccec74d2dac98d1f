import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder for one test, which is removed with everything in it. */
export class TempFolder implements Disposable {
  readonly path: string = mkdtempSync(join(tmpdir(), "lastcall-sqlite-"));

  /** The path of a file in the folder. */
  file(name = "jobs.db"): string {
    return join(this.path, name);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, maxRetries: 3 });
  }
}
