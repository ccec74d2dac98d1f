import { type Finding, ok } from "./finding.ts";
import type { Settings } from "./settings.ts";
import { spell } from "./times.ts";

/** Tells what the other checks go by. */
export function checkPlatform({ platform, detectedBy, graceMs }: Settings): readonly Finding[] {
  const { title, signal } = platform;
  const how = detectedBy === undefined ? "" : ` (${detectedBy} is set)`;
  if (graceMs === undefined) {
    return [ok("platform", "none is known that would kill the process; name yours by --platform")];
  }
  const given = graceMs === platform.graceMs ? "" : ", as you say";
  const who = platform.name === "none" ? "the supervisor" : title;
  return [ok("platform", `${who} sends ${signal} and kills after ${spell(graceMs)}${given}${how}`)];
}
