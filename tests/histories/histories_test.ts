// Random histories of a queue. `LASTCALL_SEED=<seed>` runs the same ones again, and `LASTCALL_HISTORIES=<n>`
// runs n of them on each engine. A failure prints the smallest history that shows it, one call per line.

import { describe, it } from "node:test";
import { useServer as useSqs } from "../engines/sqs/_sqs.ts";
import { seed } from "../_seed.ts";
import { agrees, holds, isLong, sizeOf } from "./_check.ts";
import { ENGINES } from "./_engines.ts";
import { memorySite } from "./_local_sites.ts";

describe("random histories", () => {
  useSqs();

  for (const { name, gate, size, deterministic, skips = {}, open } of ENGINES) {
    it(`${name} keeps the rules although answers are lost (seed ${seed})`, gate, async (test) => {
      await using site = await open();
      const counts = await holds(site, sizeOf(size));
      if (isLong) test.diagnostic(`${name}: ${JSON.stringify(counts)}`);
    });

    for (const [rule, reason] of gate.skip === false ? Object.entries(skips) : []) {
      it(`${name}: ${rule}`, { skip: reason }, () => {});
    }

    if (!deterministic) continue;
    it(`${name} answers as the memory engine does (seed ${seed})`, gate, async () => {
      await using site = await open();
      await using reference = memorySite();
      await agrees(site, reference, sizeOf(size));
    });
  }
});
