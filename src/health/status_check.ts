// Validates the status of another process before it is shown or passed on.

import type { LoopStatus, Status } from "./status.ts";

type Check = (value: unknown) => boolean;

const isText: Check = (it) => typeof it === "string";
const isFlag: Check = (it) => typeof it === "boolean";
const isNumber: Check = (it) => Number.isFinite(it);
const isList = (is: Check): Check => (it) => Array.isArray(it) && it.every(is);
const isMissingOr = (is: Check): Check => (it) => it === undefined || is(it);

function isRecord<T>(fields: Readonly<Partial<Record<keyof T & string, Check>>>): Check {
  const checks = Object.entries<Check | undefined>(fields);
  return (it) => {
    const isObject = typeof it === "object" && it !== null;
    return isObject && checks.every(([name, is]) => is!((it as Record<string, unknown>)[name]));
  };
}

const isProcess = isRecord<NonNullable<Status["process"]>>({
  ...{ id: isMissingOr(isText), name: isText, startedAt: isNumber, lastcall: isText },
  ...{ pid: isMissingOr(isNumber), version: isMissingOr(isText) },
});

const isCounts = isRecord<Status["totals"]["counts"]>({
  ...{ acknowledged: isNumber, nacked: isNumber, deadLettered: isNumber },
});

const isTotals = isRecord<Status["totals"]>({
  ...{ loops: isNumber, ready: isNumber, inFlight: isNumber, oldestMs: isNumber },
  ...{ counts: isCounts, perSecond: isMissingOr(isNumber) },
});

const isStop = isRecord<NonNullable<Status["stop"]>>({
  ...{ reason: isText, remainingMs: isNumber, timeoutMs: isNumber },
});

const isEnd = isRecord<NonNullable<Status["end"]>>({ outcome: isText, exitCode: isNumber });

const isWork = isRecord<LoopStatus["work"][number]>({ id: isText, ageMs: isNumber });

const isMessage = isRecord<NonNullable<LoopStatus["messages"]>[number]>({
  ...{ id: isText, attempt: isMissingOr(isNumber), finishedSteps: isMissingOr(isNumber) },
  ...{ steps: isMissingOr(isList(isText)) },
});

const isLoop = isRecord<LoopStatus>({
  ...{ name: isText, state: isText, ready: isFlag, inFlight: isNumber, oldestMs: isNumber },
  ...{ restarts: isNumber, work: isMissingOr(isList(isWork)), counts: isMissingOr(isCounts) },
  ...{ messages: isMissingOr(isList(isMessage)), perSecond: isMissingOr(isNumber) },
  ...{ mailbox: isMissingOr(isText) },
});

const isRate = isRecord({ max: isNumber, perMs: isNumber });
const isCount = isMissingOr(isNumber);

const isMailbox = isRecord<Status["mailboxes"][number]>({
  ...{ name: isText, reachable: isFlag, engine: isMissingOr(isText), error: isMissingOr(isText) },
  ...{ waiting: isCount, delayed: isCount, inFlight: isCount, dead: isCount },
  ...{ oldestWaitingMs: isCount, pausedForMs: isCount, paused: isMissingOr(isFlag) },
  rateLimit: isMissingOr(isRate),
});

const isAgent = isRecord<NonNullable<Status["agents"]>[number]>({
  ...{ agentId: isText, status: isText, updatedAt: isCount },
});

const STATE = { ready: isFlag, live: isFlag, paused: isFlag, stop: isStop, end: isEnd };

const isReplica = isRecord<NonNullable<Status["replicas"]>[number]>({
  ...{ url: isText, reachable: isFlag, error: isMissingOr(isText) },
  ...{ phase: isMissingOr(isText), totals: isMissingOr(isTotals), process: isMissingOr(isProcess) },
  ...Object.fromEntries(Object.entries(STATE).map(([name, is]) => [name, isMissingOr(is)])),
});

const FIELDS: Readonly<Partial<Record<keyof Status, Check>>> = {
  ...{ at: isNumber, runtime: isText, process: isProcess, phase: isText, ...STATE },
  ...{ totals: isTotals, loops: isList(isLoop), mailboxes: isList(isMailbox) },
  ...{ agents: isList(isAgent), replicas: isList(isReplica) },
};

/**
 * Returns the valid fields of a status. Keeps fields that this version does not know, because a newer process may
 * have written them. Returns none if the value is not an object.
 */
export function statusFields(value: unknown): Partial<Status> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  const fields = Object.entries(value).filter(([name, it]) => {
    return !Object.hasOwn(FIELDS, name) || FIELDS[name as keyof Status]!(it);
  });
  return Object.fromEntries(fields);
}
