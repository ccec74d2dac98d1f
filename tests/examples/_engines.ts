import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import * as postgres from "../engines/postgres/_shared.ts";
import * as redis from "../engines/redis/_redis.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { runtimeName } from "../signals/_child.ts";
import { ended, everywhere, type Host, start, stopped } from "./_example.ts";

/** Engines with servers, Deno KV, and one of your own. */
export function engines(it: Host): void {
  const schema = postgres.ownSchema();

  it("5: a worker on Redis delivers and stops", redis.gate, async () => {
    const queue = redis.uniqueName();
    try {
      await using courier = start("05_redis", { args: [queue], env: { REDIS_URL: redis.url } });
      await courier.says(" delivered to house ");
      assertMatch(await stopped(courier), /drained in .* \(SIGTERM\), exit code 0/);
    } finally {
      await redis.cleanUp(queue);
    }
  });

  it(
    "6: an invoice on PostgreSQL is dead-lettered, redriven and paid",
    postgres.options,
    async () => {
      const env = { DATABASE_URL: postgres.url! };
      await using clerk = start("06_postgres", { args: [schema], env });
      const said = await ended(clerk);
      assertMatch(said, /invoice 2: max_deliveries[^]*the bank is open, 1[^]*invoice 2 is paid/);
      assertStringIncludes(said, "dead letter 3: Error: -1 cents");
      assertStringIncludes(said, "1 dead letter is deleted");
    },
  );

  it("5 and 6: without a server the error says what to do", everywhere, async () => {
    await using courier = start("05_redis", { env: { REDIS_URL: "redis://127.0.0.1:1" } });
    await using clerk = start("06_postgres", {
      env: { DATABASE_URL: "postgres://127.0.0.1:1/none" },
    });
    assertStringIncludes(await ended(courier, 1), "Start a Redis, or set REDIS_URL");
    assertStringIncludes(await ended(clerk, 1), "Start a PostgreSQL, or set DATABASE_URL");
  });

  it("13: an order to the worker for Deno Deploy is served", everywhere, async () => {
    using folder = new TempFolder();
    const onDeno = runtimeName === "deno";
    await using worker = start("13_deno_deploy", {
      ...(onDeno && { runFlags: ["run", "-A", "--no-check", "--unstable-kv"] }),
      args: [folder.file("orders.kv")],
      env: { PORT: "0" },
    });
    const [, port] = await worker.matches(/listening on (\d+)/);
    const response = await fetch(`http://127.0.0.1:${port}/orders`, {
      method: "POST",
      body: '"tea"',
    });
    assertEquals(response.status, 202, await response.text());
    await worker.says("tea is served");
    const said = await stopped(worker, "SIGINT");
    assertEquals(said.includes("orders are kept in memory"), !onDeno, said);
  });

  it("14: the custom engine passes every case", everywhere, async () => {
    await using proof = start("14_custom_engine");
    const [, held] = /(\d+) of \1 cases hold/.exec(await ended(proof)) ?? [];
    assert(Number(held) > 100, `${held} cases hold`);
  });
}
