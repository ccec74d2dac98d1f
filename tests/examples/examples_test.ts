import { describe } from "node:test";
import { agents } from "./_agents.ts";
import { basics } from "./_basics.ts";
import { engines } from "./_engines.ts";
import { sideBySide } from "./_example.ts";
import { messages } from "./_messages.ts";
import { migration } from "./_migration.ts";
import { transactions } from "./_transactions.ts";

describe("the examples", () => {
  const it = sideBySide();
  agents(it); // what takes longest is first
  basics(it);
  engines(it);
  messages(it);
  transactions(it);
  migration(it);
});
