import { findFailure } from "./_check.ts";
import { simulatedSite } from "./_local_sites.ts";
import { planted } from "./_planted.ts";
for (const [fault, open] of [["correct", () => simulatedSite()] as const, ...planted]) {
  const ns = []; let msg = "";
  for (let i = 0; i < 12; i++) {
    const { failure, histories } = await findFailure(open(), 600, Math.floor(Math.random() * 2 ** 31));
    ns.push(failure ? histories : -1);
    if (failure) msg = String((failure?.error as Error)?.message).slice(0, 150);
    if (fault === "correct" && failure) console.log(failure.lines.join("\n"), failure.error);
    if (fault === "correct" && (i > 4 || failure)) break;
  }
  console.log(fault, ns.sort((a, b) => a - b).join(" "), msg.slice(0, 100));
}
