import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { Child } from "./_child.ts";

/** Runs the rest of the command with a pipe as its standard error that is full and never read. */
const WITH_FULL_PIPE = `
mkfifo "$0" && exec 3<>"$0" || exit 99
dd if=/dev/zero bs=4096 count=1000 oflag=nonblock >&3 2>/dev/null
exec "$@" 2>"$0"
`;

// Fixture, what has to be reported on standard error, and the exit code.
const stops = [
  ["busy", "the lines about a stop", 0],
  ["failing", "the error of a loop", 1],
  ["hung_step", "the report of a stop that ran out of time", 124],
  ["throwing_hooks", "the errors of shutdown callbacks", 0],
] as const;

describe(
  "a process whose standard error is a full pipe that is never read",
  { skip: process.platform === "win32" },
  () => {
    const folder = mkdtempSync(join(tmpdir(), "lastcall-pipe-"));
    after(() => rmSync(folder, { recursive: true }));
    const start = (fixture: string) =>
      Child.start(fixture, { wrapper: ["sh", "-c", WITH_FULL_PIPE, join(folder, fixture)] });

    for (const [fixture, what, exitCode] of stops) {
      it(`stops in time although ${what} cannot be written, exit code ${exitCode}`, async () => {
        await using child = start(fixture);
        if (fixture !== "failing") {
          await child.line("ready");
          child.kill("SIGTERM");
        }
        const began = performance.now();
        const { code, stderr } = await child.exit();
        assertEquals([code, stderr], [exitCode, ""]);
        assert(performance.now() - began < 10_000, "far from the 30 s that a stop may take");
      });
    }

    for (const fixture of ["blocked", "stalled"]) {
      it(`is ended by the watchdog although its reason cannot be written: ${fixture}`, async () => {
        await using child = start(fixture);
        const { signal, stderr } = await child.exit();
        assertEquals([signal, stderr], ["SIGKILL", ""]);
      });
    }
  },
);
