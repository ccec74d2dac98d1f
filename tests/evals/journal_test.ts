import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type EvalResult, FileJournal, type Journal, MemoryJournal } from "../../src/evals/mod.ts";

/** A temporary folder for a journal. */
class Folder implements Disposable {
  readonly #path: string = mkdtempSync(join(tmpdir(), "lastcall-evals-"));

  get file(): string {
    return join(this.#path, "journal.jsonl");
  }

  [Symbol.dispose](): void {
    rmSync(this.#path, { recursive: true });
  }
}

function result(sampleId: string): EvalResult {
  return {
    evaluationId: "e",
    experiment: "default",
    sampleId,
    score: { value: 1, passed: true, reason: "où\n“ça”" },
    latencyMs: 1,
    usage: { inputTokens: 0, outputTokens: 0 },
    completedAt: 0,
  };
}

const ids = async (journal: Journal) => (await journal.load()).map(({ sampleId }) => sampleId);

describe("FileJournal and MemoryJournal", () => {
  it("FileJournal and MemoryJournal load all appended results in order", async () => {
    using folder = new Folder();
    for (const journal of [new FileJournal(folder.file), new MemoryJournal()]) {
      assertEquals(await journal.load(), []);
      await journal.append([result("s1"), result("s2")]);
      await journal.append([result("s3")]);
      assertEquals(await journal.load(), ["s1", "s2", "s3"].map(result));
    }
    assertEquals(await ids(new FileJournal(folder.file)), ["s1", "s2", "s3"]);
  });

  it("FileJournal drops only a last line that a crash left incomplete", async () => {
    using folder = new Folder();
    const journal = new FileJournal(folder.file);
    await journal.load();
    await journal.append([result("s1"), result("s2")]);
    const whole = readFileSync(folder.file, "utf8");
    const last = `${JSON.stringify(result("s3"))}\n`;
    // Includes a cut within a character, and a line that lacks only its line break.
    const bytes = new TextEncoder().encode(last);
    for (let length = 1; length < bytes.length; length++) {
      writeFileSync(folder.file, whole);
      appendFileSync(folder.file, bytes.subarray(0, length));
      const reopened = new FileJournal(folder.file);
      assertEquals(await ids(reopened), ["s1", "s2"]);
      await reopened.append([result("s4")]);
      assertEquals(await ids(new FileJournal(folder.file)), ["s1", "s2", "s4"]);
    }
  });

  it("FileJournal with only an incomplete line is empty", async () => {
    using folder = new Folder();
    writeFileSync(folder.file, '{"evalua');
    assertEquals(await ids(new FileJournal(folder.file)), []);
    assertEquals(readFileSync(folder.file, "utf8"), "");
  });

  it("FileJournal rejects an invalid line by its number and leaves the file unchanged", async () => {
    using folder = new Folder();
    const good = JSON.stringify(result("s1"));
    for (
      const [line, why] of [["{", "JSON"], [
        '{"score":1}',
        "evaluationId: expected a non-empty string",
      ]]
    ) {
      const text = `${good}\n\n${line}\n${good}\n`;
      writeFileSync(folder.file, text);
      const loading = () => new FileJournal(folder.file).load();
      const { message } = await assertRejects(loading, Error, `Line 3 of the journal`);
      assertEquals([message.includes(why!), readFileSync(folder.file, "utf8")], [true, text]);
    }
  });

  it("FileJournal load rejects when the file cannot be written", async () => {
    using folder = new Folder();
    await assertRejects(() => new FileJournal(join(folder.file, "within")).load(), Error);
    assertThrows(() => new FileJournal(""), TypeError, "Invalid path");
  });
});
