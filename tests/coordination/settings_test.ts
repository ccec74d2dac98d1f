import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { settingsFromEnv } from "../../src/coordination/mod.ts";
import { silentLog } from "../../src/log.ts";

const DEFAULTS = {
  timeoutMs: 5_000,
  drainIntervalMs: 100,
  maxBatch: 10,
  messageBaseDir: "/dev/shm/cfn-mvp/messages",
  stateDir: "/dev/shm/cfn-coordination/state",
};

function settings(env: Record<string, string>) {
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (message: string) => void warnings.push(message) };
  return { warnings, ...{ value: settingsFromEnv((name) => env[name], log) } };
}

test("settings are read from environment variables, in seconds", () => {
  assertEquals(settings({}).value, DEFAULTS);
  const { value, warnings } = settings({
    SHUTDOWN_TIMEOUT: "2.5",
    INBOX_DRAIN_INTERVAL: ".05",
    INBOX_MAX_BATCH: "20",
    MESSAGE_BASE_DIR: "/var/messages",
    COORDINATION_STATE_DIR: "/var/state",
  });
  assertEquals(value, {
    timeoutMs: 2_500,
    drainIntervalMs: 50,
    maxBatch: 20,
    messageBaseDir: "/var/messages",
    stateDir: "/var/state",
  });
  assertEquals(warnings, []);
});

test("an invalid variable is logged, and its default is used", () => {
  for (const text of ["soon", "-1", "0", "1e3", "5s", "0x10", "Infinity"]) {
    const { value, warnings } = settings({
      SHUTDOWN_TIMEOUT: text,
      INBOX_DRAIN_INTERVAL: text,
      INBOX_MAX_BATCH: text,
    });
    assertEquals(value, DEFAULTS);
    assertEquals(warnings.length, 3, text);
    assertEquals(warnings[0]?.startsWith(`SHUTDOWN_TIMEOUT is "${text}": expected`), true);
  }
  assertEquals(settings({ INBOX_MAX_BATCH: "1.5" }).warnings.length, 1);
  assertEquals(settings({ INBOX_MAX_BATCH: "1001" }).warnings.length, 1);
});
