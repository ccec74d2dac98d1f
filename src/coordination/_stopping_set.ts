import { nextTurn } from "../clock.ts";
import type { Agent } from "./agent.ts";
import type { StopRequest } from "./_agent_stop.ts";
import { type CoordinatedShutdownOptions, stopTogether } from "./shutdown.ts";
import type { ShutdownReport } from "./shutdown_report.ts";

interface Joined extends StopRequest {
  readonly timeoutMs: number;
  readonly resolve: (report: ShutdownReport) => void;
  readonly reject: (error: unknown) => void;
}

/** Stops agents together whose stops begin in the same turn, so that peers get one notice. */
export class StoppingSet {
  readonly #options: CoordinatedShutdownOptions;
  #joined: Joined[] = [];

  constructor(options: CoordinatedShutdownOptions) {
    this.#options = options;
  }

  /** Stops an agent; `visibilityMs` is that of its run. */
  join(
    agent: Agent,
    timeoutMs: number,
    signal: AbortSignal,
    visibilityMs: number | undefined,
  ): Promise<ShutdownReport> {
    const visibilityTimeoutMs = visibilityMs ?? this.#options.visibilityTimeoutMs;
    return new Promise((resolve, reject) => {
      this.#joined.push({ agent, timeoutMs, signal, visibilityTimeoutMs, resolve, reject });
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
