import { checkUnique, show } from "../_checks.ts";
import { errorText } from "../errors.ts";
import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Deadline } from "./deadline.ts";

/**
 * A resource that the loops need: a database, a health server, a metrics exporter. A group starts its
 * resources in order before the loops and stops them in reverse order after them, within the same deadline.
 */
export interface Resource {
  /** Its name in the report when it fails or hangs. */
  readonly name: string;
  /** Prepares the resource for the loops. `signal` aborts when a stop begins meanwhile. */
  start?(context: { readonly signal: AbortSignal }): unknown;
  /** Releases the resource. `signal` aborts when the time is up. */
  stop(context: { readonly signal: AbortSignal }): unknown;
}

/** Checks the resources of a group. A disposable becomes a resource that is disposed of when it stops. */
export function checkResources(given: readonly object[]): Resource[] {
  const resources = given.map((resource, index) => {
    const { name, stop, [Symbol.asyncDispose]: dispose } = Object(resource);
    if (typeof name === "string" && typeof stop === "function") return resource as Resource;
    if (typeof name === "string" && typeof dispose === "function") {
      return { name, stop: () => dispose.call(resource) };
    }
    throw new TypeError(
      `resources[${index}] needs a \`name\` and a \`stop\` function, or must be disposable; got ` +
        show(resource),
    );
  });
  checkUnique("resource", resources);
  return resources;
}

/** A resource whose `start` was called, and the result of that call. */
interface Started {
  readonly resource: Resource;
  readonly ready: Promise<unknown>;
}

/** Starts resources in order, and stops the started resources in reverse order. */
export class ResourceStack {
  readonly #resources: readonly Resource[];
  readonly #clock: Clock;
  readonly #onProblem: (what: string, error: unknown) => void;
  readonly #started: Started[] = [];

  constructor(
    resources: readonly Resource[],
    clock: Clock,
    onProblem: (what: string, error: unknown) => void,
  ) {
    this.#resources = resources;
    this.#clock = clock;
    this.#onProblem = onProblem;
  }

  /** Starts one after another until all have started, one fails, or `signal` aborts. */
  async start(signal: AbortSignal): Promise<void> {
    for (const resource of this.#resources) {
      if (signal.aborted) return;
      const ready = Promise.resolve().then(() => resource.start?.({ signal }));
      this.#started.push({ resource, ready });
      try {
        await ready;
      } catch (error) {
        throw new Error(`Resource "${resource.name}" could not start: ${errorText(error)}`, {
          cause: error,
        });
      }
    }
  }

  /**
   * Stops all started resources except the first `keep`. Each leaves a reserve for the later ones. Returns
   * the names of those that did not end in time.
   */
  async stop(deadline: Deadline, keep = 0): Promise<readonly string[]> {
    const hung: string[] = [];
    for (let left = this.#started.length; left > keep; left--) {
      const entry = this.#started.pop()!;
      const expired = new AbortController();
      const stopped = this.#stopOne(entry, expired.signal);
      if (await settlesWithin(stopped, deadline.budgetMs(left - 1), this.#clock)) continue;
      expired.abort();
      hung.push(`resource "${entry.resource.name}"`);
    }
    return hung;
  }

  async #stopOne({ resource, ready }: Started, signal: AbortSignal): Promise<void> {
    try {
      await ready;
    } catch {
      return; // it never started, and `start` has reported why
    }
    try {
      await resource.stop({ signal });
    } catch (error) {
      this.#onProblem(`resource "${resource.name}" failed to stop`, error);
    }
  }
}
