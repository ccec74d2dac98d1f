import type { FaultKind } from "./options.ts";

/** A message that was sent and not completed. */
export interface Missing {
  readonly id: string;
  readonly history: string;
}

/** What a run came to. */
export interface ChaosResult {
  readonly title: string;
  readonly seed: number;
  readonly sent: number;
  readonly completed: number;
  readonly lost: readonly Missing[];
  readonly duplicated: readonly Missing[];
  /** Messages that spent an attempt for nothing. */
  readonly repeated: readonly Missing[];
  /** What is still in the mailbox, and with the dead letters. */
  readonly left: number;
  readonly deadLetters: number;
  readonly faults: Partial<Readonly<Record<FaultKind, number>>>;
  /** What workers did that they must not do. */
  readonly failures: readonly string[];
  readonly ms: number;
  /** True when nobody was killed or frozen: then nothing is done twice either. */
  readonly gentle: boolean;
  /** More to say of it. */
  readonly remarks: readonly string[];
}

const NAMED = 5;

/** What is wrong with a result; nothing when it is as it must be. */
export function problemsOf(result: ChaosResult): string[] {
  const { lost, duplicated, repeated, left, deadLetters, failures, gentle } = result;
  return [
    ...named("lost", lost),
    ...(left > 0 ? [`${left} messages are still in the mailbox`] : []),
    ...(deadLetters > 0 ? [`${deadLetters} messages are with the dead letters`] : []),
    ...(gentle ? named("done twice", duplicated) : []),
    ...(gentle ? named("begun again though every worker was stopped well", repeated) : []),
    ...failures,
  ];
}

/** A result for the terminal. */
export function textOf(result: ChaosResult): string {
  const { title, seed, sent, completed, lost, duplicated, faults, ms, remarks } = result;
  const seconds = ms / 1_000;
  const survived = Object.entries(faults).map(([kind, count]) => `${kind} ${count}`).join(", ");
  return [
    title,
    `  sent        ${sent}`,
    `  completed   ${completed}`,
    `  lost        ${lost.length}`,
    `  duplicated  ${duplicated.length}`,
    `  survived    ${survived || "nothing: there were no faults"}`,
    `  throughput  ${(completed / seconds).toFixed(0)} messages/s`,
    `  time        ${seconds.toFixed(1)} s`,
    `  seed        ${seed}`,
    ...remarks.map((remark) => `  ${remark}`),
    ...problemsOf(result).map((problem) => `  FAILED: ${problem}`),
  ].join("\n");
}

function named(what: string, messages: readonly Missing[]): string[] {
  if (messages.length === 0) return [];
  const some = messages.slice(0, NAMED).map(({ id, history }) => `\n    ${id}: ${history}`);
  const more = messages.length > NAMED ? `\n    and ${messages.length - NAMED} more` : "";
  return [`${messages.length} messages were ${what}:${some.join("")}${more}`];
}
