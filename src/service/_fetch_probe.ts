import type { HealthProbe } from "./worker_address.ts";
import { workerUrl } from "./_worker_url.ts";

/** Asks for readiness, and how many slots are free where the answer tells. */
export const fetchProbe: HealthProbe = async (worker, { signal }) => {
  const response = await fetch(workerUrl(worker.url, "/health/ready"), { signal });
  const text = await response.text();
  const freeSlots = response.ok ? slotsIn(text) : undefined;
  return { healthy: response.ok, ...(freeSlots === undefined ? {} : { freeSlots }) };
};

function slotsIn(text: string): number | undefined {
  try {
    const { freeSlots } = Object(JSON.parse(text));
    return typeof freeSlots === "number" ? freeSlots : undefined;
  } catch {
    return undefined;
  }
}
