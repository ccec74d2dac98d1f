// The table of loops with their work in flight.

import { Fragment, type JSX } from "preact";
import { useState } from "preact/hooks";
import type { LoopStatus, Status } from "../src/health/status.ts";
import type { MessageInFlight } from "../src/lifecycle/runnable.ts";
import { BASE } from "./client.ts";
import type { Tone } from "./summary.ts";
import { Badge, Cell, RowHeader, Section, Table } from "./parts.tsx";
import { count, duration, plain, rate, several } from "./format.ts";

const COLUMNS = [
  "Loop",
  "State",
  "#In flight",
  "#Oldest",
  "#Per second",
  "#Acknowledged",
  "#Nacked",
  "#Released",
  "#Dead-lettered",
  "#Leases extended",
] as const;

/** Shows the loops. A loop with work in flight can be expanded. */
export function LoopsTable({ status }: { readonly status: Status }): JSX.Element {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const toggle = (name: string) => {
    const next = new Set(opened);
    if (!next.delete(name)) next.add(name);
    setOpened(next);
  };
  const left = status.leftOut?.loops ?? 0;
  return (
    <Section id="loops" heading="Loops">
      {status.loops.length === 0
        ? <p class="more">No loops.</p>
        : (
          <Table caption="Loops and the counts of their messages" columns={COLUMNS}>
            {status.loops.map((loop) => (
              <Fragment key={loop.name}>
                <Loop
                  loop={loop}
                  open={opened.has(loop.name)}
                  onToggle={() => toggle(loop.name)}
                />
              </Fragment>
            ))}
          </Table>
        )}
      {left > 0 && (
        <p class="more">
          and {several(left, "more loop")}. <a href={`${BASE}status`}>status</a> lists all.
        </p>
      )}
    </Section>
  );
}

function Loop(
  { loop, open, onToggle }: {
    readonly loop: LoopStatus;
    readonly open: boolean;
    readonly onToggle: () => void;
  },
): JSX.Element {
  const { name, mailbox, inFlight, oldestMs, perSecond, counts, leases } = loop;
  const details = `work-${name}`;
  return (
    <>
      <tr role="row">
        <RowHeader>
          {inFlight > 0
            ? (
              <button
                type="button"
                class="toggle"
                aria-expanded={open}
                aria-controls={open ? details : undefined}
                onClick={onToggle}
              >
                {name}
              </button>
            )
            : <span class="name">{name}</span>}
          {mailbox !== undefined && mailbox !== name && <small>from {mailbox}</small>}
        </RowHeader>
        <Cell label="State">
          <Badge tone={toneOf(loop)}>{stateOf(loop)}</Badge>
        </Cell>
        <Cell label="#In flight">{count(inFlight)}</Cell>
        <Cell label="#Oldest">{inFlight > 0 ? duration(oldestMs) : undefined}</Cell>
        <Cell label="#Per second">{perSecond === undefined ? undefined : rate(perSecond)}</Cell>
        <Cell label="#Acknowledged">{counts && count(counts.acknowledged)}</Cell>
        <Cell label="#Nacked">{counts && count(counts.nacked)}</Cell>
        <Cell label="#Released">{counts && count(counts.released)}</Cell>
        <Cell label="#Dead-lettered" tone={counts?.deadLettered ? "busy" : undefined}>
          {counts && count(counts.deadLettered)}
        </Cell>
        <Cell label="#Leases extended" tone={leases?.losses ? "bad" : undefined}>
          {leases && `${count(leases.attempts)}${leases.losses ? `, ${leases.losses} lost` : ""}`}
        </Cell>
      </tr>
      {open && inFlight > 0 && (
        <tr role="row" id={details} class="details">
          <td role="cell" colSpan={COLUMNS.length}>
            <Work loop={loop} />
          </td>
        </tr>
      )}
    </>
  );
}

function Work({ loop }: { readonly loop: LoopStatus }): JSX.Element {
  const { name, work, inFlight, messages = [] } = loop;
  const more = inFlight - work.length;
  return (
    <>
      <ol class="work" aria-label={`Oldest work of ${name}`}>
        {work.map(({ id, ageMs }) => (
          <li key={id}>
            <code>{id}</code> <span>{duration(ageMs)}</span>
            <Progress message={messages.find((message) => message.id === id)} />
          </li>
        ))}
      </ol>
      {more > 0 && <p class="more">and {count(more)} more</p>}
    </>
  );
}

/** Shows how far a message is: a repeated attempt, and the finished steps. */
function Progress(
  { message }: { readonly message: MessageInFlight | undefined },
): JSX.Element | null {
  if (message === undefined) return null;
  const { attempt, finishedSteps, steps } = message;
  const names = `${finishedSteps > steps.length ? "…, " : ""}${steps.join(", ")}`;
  const facts = [
    attempt > 1 ? `attempt ${count(attempt)}` : "",
    finishedSteps > 0 ? `${several(finishedSteps, "finished step")}: ${names}` : "",
  ].filter(Boolean);
  return facts.length === 0 ? null : <small>{facts.join(", ")}</small>;
}

function stateOf({ state, ready, restarts }: LoopStatus): string {
  const word = state === "running" && !ready ? "not ready" : plain(state);
  return restarts > 0 ? `${word}, ${several(restarts, "restart")}` : word;
}

function toneOf({ state, ready }: LoopStatus): Tone {
  if (state === "running") return ready ? "good" : "bad";
  if (state === "failed" || state === "hung") return "bad";
  return state === "ended" ? "quiet" : "busy";
}
