import { configure, type LogRecord, reset } from "@logtape/logtape";
import { afterEach, describe, it } from "node:test";
import { assertEquals, assertStringIncludes } from "@std/assert";
import type * as LibraryLog from "../../src/library_log.ts";
import {
  flushLibraryLog,
  libraryLog,
  loadLibraryLog,
  useFallbackLog,
} from "../../src/library_log.ts";
import type { Log } from "../../src/log.ts";
import { Child } from "../signals/_child.ts";

/** Configures LogTape to collect the records of the package from this level on. */
async function collect(lowestLevel: "debug" | "error" = "debug"): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  await configure({
    sinks: { records: (record) => void records.push(record) },
    loggers: [
      { category: "lastcall", sinks: ["records"], lowestLevel },
      { category: ["logtape", "meta"], sinks: [], lowestLevel: "fatal" },
    ],
  });
  return records;
}

/** Returns a log that records level and text. */
function notes(): { readonly told: string[]; readonly log: Log } {
  const told: string[] = [];
  const note = (level: string) => (text: string) => void told.push(`${level} ${text}`);
  return {
    told,
    log: { debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") },
  };
}

const textOf = ({ message }: LogRecord) => message.join("");

/** Imports a new copy of the module, which has logged nothing yet. */
async function fresh(): Promise<typeof LibraryLog> {
  return await import(`../../src/library_log.ts?${crypto.randomUUID()}`);
}

describe("libraryLog", () => {
  afterEach(() => reset());

  it("libraryLog passes records to LogTape with its category and their properties", async () => {
    await loadLibraryLog();
    const records = await collect();
    const error = new Error("no");
    libraryLog.debug("a");
    libraryLog.info("b", { report: 1 });
    libraryLog.warn("c", { error, failures: 3 });
    libraryLog.error("d", { ids: ["x"] });
    assertEquals(
      records.map((it) => [it.category, it.level, textOf(it), it.properties]),
      [
        [["lastcall"], "debug", "a", {}],
        [["lastcall"], "info", "b", { report: 1 }],
        [["lastcall"], "warning", "c", { error, failures: 3 }],
        [["lastcall"], "error", "d", { ids: ["x"] }],
      ],
    );
  });

  it("libraryLog does not treat braces in a text as placeholders", async () => {
    await loadLibraryLog();
    const records = await collect();
    const texts = ['"{lastcall:orders}" is {error}', "}}", "{{x}}", "{", "}{", "{*}"];
    for (const text of texts) libraryLog.warn(text, { error: "misread" });
    assertEquals(records.map(textOf), texts);
  });

  it("libraryLog keeps records in order while LogTape loads", async () => {
    const records = await collect();
    const { libraryLog, loadLibraryLog } = await fresh();
    libraryLog.warn("first");
    libraryLog.error("second");
    assertEquals(records, []);
    await loadLibraryLog();
    libraryLog.warn("third");
    assertEquals(records.map(textOf), ["first", "second", "third"]);
  });

  it("libraryLog drops records until the application configures LogTape", async () => {
    await loadLibraryLog();
    libraryLog.error("before configure");
    const records = await collect();
    libraryLog.error("after configure");
    assertEquals(records.map(textOf), ["after configure"]);
  });

  it("libraryLog passes records that LogTape does not take to the fallback log until it is removed", async () => {
    await loadLibraryLog();
    const records = await collect("error");
    const { told, log } = notes();
    const restoreLog = useFallbackLog(log);
    libraryLog.warn("{unheard}");
    libraryLog.error("heard");
    restoreLog();
    libraryLog.warn("too late");
    assertEquals([told, records.map(textOf)], [["warn {unheard}"], ["heard"]]);
  });

  it("libraryLog flushes records to the fallback log before LogTape is loaded", async () => {
    const { libraryLog, flushLibraryLog, useFallbackLog, loadLibraryLog } = await fresh();
    const { told, log } = notes();
    const restoreLog = useFallbackLog(log);
    libraryLog.error("the last word");
    assertEquals(told, []);
    flushLibraryLog();
    await loadLibraryLog();
    restoreLog();
    assertEquals(told, ["error the last word"], "the record is delivered once");
  });

  it("libraryLog flushes nothing when no record waits", () => {
    const { told, log } = notes();
    const restoreLog = useFallbackLog(log);
    flushLibraryLog();
    restoreLog();
    assertEquals(told, []);
  });
});

describe("a program with a failing handler", () => {
  const run = async (...args: string[]) => {
    await using child = Child.start("../../telemetry/fixtures/failing_handler", { args });
    const { code, stdout, stderr } = await child.exit();
    assertEquals(code, args[0] === "refused" ? 1 : 0, stderr);
    return { stdout, stderr };
  };

  it("a program with a failing handler gets the warning on the console from main() without a configured log", async () => {
    const { stdout, stderr } = await run("main");
    assertEquals(stdout, "");
    assertStringIncludes(stderr, "lastcall: message ");
    assertStringIncludes(stderr, "out of paper");
  });

  it("a program with a failing handler gets no output from run() without a configured log", async () => {
    assertEquals(await run("run"), { stdout: "", stderr: "" });
  });

  it("a program with a failing handler gets the warning from LogTape and not on the console when LogTape is configured", async () => {
    const { stdout, stderr } = await run("main", "configured");
    assertEquals(stderr, "");
    assertStringIncludes(stdout, "warning message ");
    assertStringIncludes(stdout, "info drained");
  });

  it("a program with a failing handler gets the error from LogTape also when main() rejects its options", async () => {
    assertEquals(await run("refused", "configured"), {
      stdout: "error the group could not run\n",
      stderr: "",
    });
  });
});

describe("a program that the watchdog kills", () => {
  it("a program that the watchdog kills gets the reason on the console without a configured log", async () => {
    await using child = Child.start("../../telemetry/fixtures/stalled");
    const { signal, stderr } = await child.exit();
    assertEquals(signal, "SIGKILL");
    assertStringIncludes(stderr, 'lastcall: no sign of life from "stalled"');
  });
});
