import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { Child } from "../../signals/_child.ts";
import { TempFolder } from "./_folder.ts";

/** Starts a program in a world of its own, where a folder is a disk of 6 MB. */
const onSmallDisk = (folder: string): readonly string[] => {
  const mount = 'mount -t tmpfs -o size=6m none "$0" && exec "$@"';
  return ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, folder];
};

/** Why there can be no small disk here, or false. */
function noSmallDisk(): string | false {
  using folder = new TempFolder();
  const [program, ...args] = [...onSmallDisk(folder.path), "true"];
  const { status } = spawnSync(program!, args, { stdio: "ignore" });
  return status === 0 ? false : "no small disk: this user may not mount a tmpfs in a namespace";
}

describe("a SQLite file on a disk that is full", { skip: noSmallDisk() }, () => {
  it("a full disk refuses sends with the reason, keeps confirmed messages, and recovers when there is space", async () => {
    using folder = new TempFolder();
    await using child = Child.start("../../engines/sqlite/fixtures/disk_full", {
      wrapper: onSmallDisk(folder.path),
      args: [folder.path],
    });
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stderr], [0, ""]);
    const { confirmed, found, refusals, acknowledged, left } = JSON.parse(stdout);
    assertEquals(found, confirmed);
    assertGreater(confirmed.length, 20);
    assertEquals(refusals.length, 2);
    assertEquals(confirmed.at(-1), confirmed.length + 1, "the last one, after room was made");
    for (const refusal of refusals) {
      assertStringIncludes(refusal, "MailboxConnectionError");
      assertStringIncludes(refusal, "disk is full: free some space on its disk");
    }
    assertEquals([acknowledged, left], [true, 0]);
  });
});
