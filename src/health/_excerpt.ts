import type { AgentStatusLine, LoopStatus, MailboxStatus, Status } from "./status.ts";

/** Limits of an event, because every client gets one per second. */
const MAX = { loops: 100, mailboxes: 50, agents: 100 } as const;
/** The most pieces of work in flight in an event. */
const MAX_WORK = 400;

/** Shortens a status for an event: failing entries first, then busy ones. Counts the omitted ones. */
export function excerpt(status: Status): Status {
  const { agents } = status;
  const loops = busiest(status.loops, MAX.loops, urgencyOfLoop);
  const mailboxes = busiest(status.mailboxes, MAX.mailboxes, urgencyOfMailbox);
  const someAgents = agents && busiest(agents, MAX.agents, urgencyOfAgent);
  const each = Math.max(1, Math.floor(MAX_WORK / Math.max(1, loops.length)));
  return {
    ...status,
    loops: loops.map((loop) => ({ ...loop, work: loop.work.slice(0, each) })),
    mailboxes,
    ...(someAgents && { agents: someAgents }),
    leftOut: {
      loops: status.loops.length - loops.length,
      mailboxes: status.mailboxes.length - mailboxes.length,
      agents: (agents?.length ?? 0) - (someAgents?.length ?? 0),
    },
  };
}

/** Returns the `most` urgent entries in their original order. */
function busiest<T>(all: readonly T[], most: number, urgency: (it: T) => number): readonly T[] {
  if (all.length <= most) return all;
  const ranked = all.map((it, place) => ({ it, place, urgency: urgency(it) }));
  return ranked.sort((a, b) => b.urgency - a.urgency || a.place - b.place)
    .slice(0, most).sort((a, b) => a.place - b.place).map(({ it }) => it);
}

/** Ranks failing loops first, then busy loops by the age of their work. */
function urgencyOfLoop({ state, ready, inFlight, oldestMs }: LoopStatus): number {
  if (state === "failed" || state === "hung" || state === "backing_off") return Infinity;
  if (!ready && state === "running") return Number.MAX_VALUE;
  return inFlight > 0 ? 1 + oldestMs : 0;
}

function urgencyOfMailbox({ reachable, deadLetters = 0, messages = 0 }: MailboxStatus): number {
  if (!reachable) return Infinity;
  return deadLetters > 0 ? Number.MAX_VALUE : messages;
}

function urgencyOfAgent({ status }: AgentStatusLine): number {
  return ["shutdown_complete", "running", "shutting_down"].indexOf(status) + 1 || 4;
}
