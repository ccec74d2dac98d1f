import { show } from "../_checks.ts";
import type { Message, StepRecord } from "../mailbox/mailbox.ts";

/** What steps need of their message. */
type SteppedMessage = Pick<Message<unknown, never>, "id" | "steps" | "saveStep">;

/**
 * The steps of one delivery. A step is identified by its name and by its place in the order of the calls, so
 * that a handler that was changed since an earlier delivery is noticed before it repeats or skips work.
 */
export class Steps {
  readonly #message: SteppedMessage;
  readonly #finished: ReadonlyMap<string, StepRecord>;
  readonly #names = new Set<string>();

  constructor(message: SteppedMessage) {
    this.#message = message;
    this.#finished = new Map(message.steps.map((step) => [step.name, step]));
  }

  async run<S>(name: string, run: () => S | Promise<S>): Promise<S> {
    const place = this.#checkName(name);
    const finished = this.#finished.get(name);
    if (finished !== undefined) return finished.result as S;
    const result = stepResult(name, await run());
    await this.#message.saveStep({ name, place, ...(result === undefined ? {} : { result }) });
    return result as S;
  }

  /** Returns the place of the step, if its name fits. */
  #checkName(name: string): number {
    const { id } = this.#message;
    if (typeof name !== "string" || name === "") {
      throw new TypeError(`Invalid name of a step: expected a text, got ${show(name)}`);
    }
    if (this.#names.has(name)) {
      throw new TypeError(
        `Step ${show(name)} of message ${id} was called before: give each step a name of its own`,
      );
    }
    this.#names.add(name);
    const place = this.#names.size;
    for (const step of this.#finished.values()) {
      if ((step.name === name) === (step.place === place)) continue;
      throw new TypeError(
        `Step ${place} of message ${id} is ${show(name)}, and an earlier delivery finished step ` +
          `${step.place}, ${
            show(step.name)
          }: keep the names and the order of steps while messages that ` +
          "have begun are stored",
      );
    }
    return place;
  }
}

/** Returns the result of a step as JSON has it, so that all deliveries get the same value. */
function stepResult(name: string, result: unknown): unknown {
  if (result === undefined) return undefined;
  let text: string | undefined;
  let cause: unknown;
  try {
    text = JSON.stringify(result);
  } catch (error) {
    cause = error;
  }
  if (text !== undefined) return JSON.parse(text);
  throw new TypeError(
    `The result of step ${show(name)} cannot be written as JSON: got ${
      show(result)
    }. Return plain data`,
    { cause },
  );
}
