import { nextTurn } from "../clock.ts";
import type { Agent } from "./agent.ts";
import { type CoordinatedShutdownOptions, type StopRequest, stopTogether } from "./shutdown.ts";
import type { ShutdownReport } from "./shutdown_report.ts";

interface Joined extends StopRequest {
  readonly timeoutMs: number;
  readonly resolve: (report: ShutdownReport) => void;
  readonly reject: (error: unknown) => void;
}

/** Agents that are told to stop in the same turn stop together, so that others hear of it once. */
export class StoppingSet {
  readonly #options: CoordinatedShutdownOptions;
  #joined: Joined[] = [];

  constructor(options: CoordinatedShutdownOptions) {
    this.#options = options;
  }

  join(agent: Agent, timeoutMs: number, signal: AbortSignal): Promise<ShutdownReport> {
    return new Promise((resolve, reject) => {
      this.#joined.push({ agent, timeoutMs, signal, resolve, reject });
      if (this.#joined.length === 1) void this.#stop();
    });
  }

  async #stop(): Promise<void> {
    await nextTurn();
    const joined = this.#joined.splice(0);
    const timeoutMs = Math.min(...joined.map((it) => it.timeoutMs));
    try {
      const reports = await stopTogether(joined, { ...this.#options, timeoutMs });
      joined.forEach(({ resolve }, i) => resolve(reports[i]!));
    } catch (error) {
      for (const { reject } of joined) reject(error);
    }
  }
}
