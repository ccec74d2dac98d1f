import { existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  type Board,
  openDirectoryBoard,
  openPostgresBoard,
  openRedisBoard,
} from "../../src/coordination/mod.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { freePort } from "../engines/_servers.ts";
import * as postgres from "../engines/postgres/_shared.ts";
import * as redis from "../engines/redis/_redis.ts";
import { lastcall } from "./_io.ts";

const folder = mkdtempSync(join(tmpdir(), "lastcall-cli-agents-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const notice = { id: "n", reason: "deploy", agents: ["b", "c"] };

/** Adds two agents: one is running, one has announced its shutdown. */
async function populate(board: Board): Promise<void> {
  await board.setState("a", "running", { zone: "west" });
  await board.setState("b", "shutting_down", {}, { notice });
}

async function boardIn(name: string): Promise<string> {
  const path = join(folder, name);
  await using board = await openDirectoryBoard(path);
  await populate(board);
  return path;
}

describe("lastcall agents", () => {
  it("lastcall agents lists the agents of a directory with state, age and notice", async () => {
    const path = await boardIn("list");
    for (const address of [path, `dir:${path}`, `dir://${path}`]) {
      const { code, out, err } = await lastcall(["agents", address]);
      assertEquals({ code, err }, { code: 0, err: "" });
      assertMatch(out, /^AGENT +STATUS +SINCE +DETAIL\n/);
      assertMatch(out, /\na +running +\d+ m?s +\{"zone":"west"\}\n/);
      assertMatch(out, /\nb +shutting_down +\d+ m?s +stops 2 agents: deploy\n$/);
    }
  });

  it("lastcall agents distinguishes unknown, corrupt and stale", async () => {
    const path = await boardIn("apart");
    writeFileSync(join(path, "broken.json"), "{not json");
    utimesSync(join(path, "a.json"), 0, 0);
    const { out } = await lastcall(["agents", path]);
    assertMatch(out, /\na +stale, was running /);
    assertMatch(out, /\nbroken +corrupt +unreadable: \{not json\n/);
    const asked = await lastcall(["agents", path, "b", "absent", "--json"]);
    assertEquals(asked.code, 1);
    assertEquals(asked.json.map(({ status }) => status), ["shutting_down", "unknown"]);
    assertEquals(JSON.parse(asked.err).error, {
      message: "Not on the board: absent",
      code: "not_found",
    });
  });

  it("lastcall agents calls an agent stale after --stale-after", async () => {
    const path = await boardIn("silent");
    const ago = Date.now() / 1_000 - 60;
    utimesSync(join(path, "a.json"), ago, ago);
    const status = async (...flags: string[]) =>
      (await lastcall(["agents", path, "a", "--json", ...flags])).json[0].status;
    assertEquals(await status(), "stale");
    assertEquals(await status("--stale-after", "2m"), "running");
  });

  it("lastcall agents takes the board from LASTCALL_BOARD, and refuses to run without a board", async () => {
    const path = await boardIn("env");
    const found = await lastcall(["agents", "--json"], { env: { LASTCALL_BOARD: path } });
    assertEquals(found.json.map(({ agentId }) => agentId), ["a", "b"]);
    assertEquals((await lastcall(["agents"])).code, 2);
  });

  it("lastcall agents does not create a board", async () => {
    const path = join(folder, "absent");
    const { code, err } = await lastcall(["agents", path]);
    assertEquals(code, 1);
    assertStringIncludes(err, "No directory");
    assertEquals(existsSync(path), false);
  });

  it("lastcall agents refuses invalid arguments with exit code 2", async () => {
    const path = await boardIn("usage");
    const file = join(folder, "file");
    writeFileSync(file, "");
    for (
      const args of [
        ["ftp://host"],
        [file],
        ["dir:"],
        [path, "--schema", "s"],
        [path, "--name", "n"],
        [path, "--stale-after", "soon"],
        [path, "--stale-after", "0"],
        [path, "no agent"],
        [path, "a", "--watch"],
        ["redis://localhost", "--name", "a b"],
      ]
    ) {
      const { code, out } = await lastcall(["agents", ...args]);
      assertEquals({ code, out }, { code: 2, out: "" }, args.join(" "));
    }
  });

  it("lastcall agents reports an unreachable server without its password", async () => {
    const url = `redis://:secret@127.0.0.1:${await freePort()}`;
    const { code, err } = await lastcall(["agents", url, "--json"]);
    assertEquals(code, 1);
    assertEquals(JSON.parse(err).error.code, "unavailable");
    assertEquals(err.includes("secret"), false);
  });
});

describe("lastcall agents --watch", () => {
  it("lastcall agents --watch writes every change until Ctrl+C, and exits 0", async () => {
    const path = await boardIn("watch");
    await using board = await openDirectoryBoard(path);
    const runtime = new FakeRuntime();
    const lines: string[] = [];
    const { code } = await lastcall(["agents", path, "--watch"], {
      runtime,
      onOut: (text) => {
        lines.push(text.replace(/^\S+ /, ""));
        if (lines.length === 2) void board.setState("c", "running");
        if (lines.length === 3) void board.forget("c");
        if (lines.length === 4) runtime.send("SIGINT");
      },
    });
    assertEquals(code, 0);
    assertEquals(lines.slice(2), ["c running\n", "c unknown\n"]);
    assertEquals(runtime.listening, 0);
  });

  it("lastcall agents --watch draws the table on a terminal", async () => {
    const path = await boardIn("draw");
    const runtime = new FakeRuntime();
    const { out } = await lastcall(["agents", path, "--watch"], {
      runtime,
      interactive: true,
      onOut: () => runtime.send("SIGINT"),
    });
    assertStringIncludes(out, "stops 2 agents: deploy");
  });
});

describe("lastcall agents on Redis", redis.gate, () => {
  it("lastcall agents on Redis lists the board of --name, and no agents of an empty one", async () => {
    const name = redis.uniqueName();
    const board = await openRedisBoard(redis.url, { name });
    await populate(board);
    const { code, json } = await lastcall(["agents", redis.url, "--name", name, "--json"]);
    for (const { agentId } of await board.list()) await board.forget(agentId);
    await board.close();
    await using behind = redis.look();
    await behind.redis.unlink(`{lastcall.board:${name}}:version`);
    assertEquals(code, 0);
    assertEquals(json.map(({ agentId, status }) => [agentId, status]), [
      ["a", "running"],
      ["b", "shutting_down"],
    ]);
    const empty = await lastcall(["agents", redis.url, "--name", redis.uniqueName()]);
    assertEquals([empty.code, empty.out], [0, "no agents\n"]);
  });
});

describe("lastcall agents on PostgreSQL", postgres.options, () => {
  const schema = postgres.ownSchema();

  it("lastcall agents on PostgreSQL does not create a board, and lists an existing one", async () => {
    const args = ["agents", postgres.url!, "--schema", schema, "--json"];
    const absent = await lastcall(args);
    assertEquals(absent.code, 1);
    assertEquals(JSON.parse(absent.err).error.code, "not_found");
    assertEquals((await lastcall(args)).code, 1, "the first call has created nothing");
    const board = await openPostgresBoard(postgres.url!, { schema });
    await populate(board);
    await board.close();
    const { code, json } = await lastcall(args);
    assertEquals(code, 0);
    assertEquals(json.map(({ agentId }) => agentId), ["a", "b"]);
  });
});
