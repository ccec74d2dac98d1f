import { configure, type LogRecord, reset } from "@logtape/logtape";
import { afterEach, describe, it } from "node:test";
import { assertEquals, assertStringIncludes } from "@std/assert";
import type * as LibraryLog from "../../src/library_log.ts";
import { flushLibraryLog, libraryLog, loadLibraryLog, takeUnheard } from "../../src/library_log.ts";
import type { Log } from "../../src/log.ts";
import { Child } from "../signals/_child.ts";

/** Has LogTape collect what the package logs, from this level on. */
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

/** A log that writes down the level and the text. */
function notes(): { readonly told: string[]; readonly log: Log } {
  const told: string[] = [];
  const note = (level: string) => (text: string) => void told.push(`${level} ${text}`);
  return {
    told,
    log: { debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") },
  };
}

const textOf = ({ message }: LogRecord) => message.join("");

/** The module as a program has it that has logged nothing yet. */
async function fresh(): Promise<typeof LibraryLog> {
  return await import(`../../src/library_log.ts?${crypto.randomUUID()}`);
}

describe("libraryLog", () => {
  afterEach(() => reset());

  it("hands records to LogTape, under its category and with their properties", async () => {
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

  it("does not take braces in a text for the places of properties", async () => {
    await loadLibraryLog();
    const records = await collect();
    const texts = ['"{lastcall:orders}" is {error}', "}}", "{{x}}", "{", "}{", "{*}"];
    for (const text of texts) libraryLog.warn(text, { error: "misread" });
    assertEquals(records.map(textOf), texts);
  });

  it("keeps what is logged while LogTape is loaded, in order", async () => {
    const records = await collect();
    const { libraryLog, loadLibraryLog } = await fresh();
    libraryLog.warn("first");
    libraryLog.error("second");
    assertEquals(records, []);
    await loadLibraryLog();
    libraryLog.warn("third");
    assertEquals(records.map(textOf), ["first", "second", "third"]);
  });

  it("says nothing until the application has configured LogTape", async () => {
    await loadLibraryLog();
    libraryLog.error("nobody hears this");
    const records = await collect();
    libraryLog.error("somebody hears this");
    assertEquals(records.map(textOf), ["somebody hears this"]);
  });

  it("gives what LogTape does not take to who asked for it, as long as that is wanted", async () => {
    await loadLibraryLog();
    const records = await collect("error");
    const { told, log } = notes();
    const giveBack = takeUnheard(log);
    libraryLog.warn("{unheard}");
    libraryLog.error("heard");
    giveBack();
    libraryLog.warn("too late");
    assertEquals([told, records.map(textOf)], [["warn {unheard}"], ["heard"]]);
  });

  it("does without LogTape where there is no time to load it", async () => {
    const { libraryLog, flushLibraryLog, takeUnheard, loadLibraryLog } = await fresh();
    const { told, log } = notes();
    const giveBack = takeUnheard(log);
    libraryLog.error("the last word");
    assertEquals(told, []);
    flushLibraryLog();
    await loadLibraryLog();
    giveBack();
    assertEquals(told, ["error the last word"], "and it is told once");
  });

  it("has nothing to deliver twice", () => {
    const { told, log } = notes();
    const giveBack = takeUnheard(log);
    flushLibraryLog();
    giveBack();
    assertEquals(told, []);
  });
});

describe("a program whose handler fails", () => {
  const run = async (...args: string[]) => {
    await using child = Child.start("../../telemetry/fixtures/failing_handler", { args });
    const { code, stdout, stderr } = await child.exit();
    assertEquals(code, args[0] === "refused" ? 1 : 0, stderr);
    return { stdout, stderr };
  };

  it("is told so on the console by main(), although it configured no log", async () => {
    const { stdout, stderr } = await run("main");
    assertEquals(stdout, "");
    assertStringIncludes(stderr, "lastcall: message ");
    assertStringIncludes(stderr, "out of paper");
  });

  it("hears nothing of it when the group is a part of it, by run()", async () => {
    assertEquals(await run("run"), { stdout: "", stderr: "" });
  });

  it("hears of it by LogTape, and not by the console, once that is configured", async () => {
    const { stdout, stderr } = await run("main", "configured");
    assertEquals(stderr, "");
    assertStringIncludes(stdout, "warning message ");
    assertStringIncludes(stdout, "info drained");
  });

  it("hears of it by LogTape also when the process ends in the moment it began", async () => {
    assertEquals(await run("refused", "configured"), {
      stdout: "error the group could not run\n",
      stderr: "",
    });
  });
});

describe("a program that the watchdog ends", () => {
  it("is told why on the console, although it configured no log", async () => {
    await using child = Child.start("../../telemetry/fixtures/stalled");
    const { signal, stderr } = await child.exit();
    assertEquals(signal, "SIGKILL");
    assertStringIncludes(stderr, 'lastcall: no sign of life from "stalled"');
  });
});
