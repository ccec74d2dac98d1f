// The table of loops with their work in flight.

import { Fragment, type JSX } from "preact";
import { useState } from "preact/hooks";
import type { CronStatus, LoopStatus, Status } from "../src/health/status.ts";
import type { MessageInFlight } from "../src/lifecycle/runnable.ts";
import { BASE } from "./client.ts";
import { contains, FILTER_FROM, Find, useAll } from "./find.tsx";
import { count, duration, moment, plain, rate, several } from "./format.ts";
import { Badge, Cell, RowHeader, Section, Table, toggled } from "./parts.tsx";
import type { Tone } from "./summary.ts";

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

/** The most rows, so that the page stays fast. */
const MAX_ROWS = 100;

/** The filters by state. */
const STATES = {
  "": { text: "any", accepts: () => true },
  failing: { text: "failing", accepts: (loop: LoopStatus) => urgencyOf(loop) > 0 },
  busy: { text: "with work in flight", accepts: ({ inFlight }: LoopStatus) => inFlight > 0 },
  idle: { text: "idle", accepts: ({ inFlight }: LoopStatus) => inFlight === 0 },
} as const;

/** Shows the loops, failing ones first. A loop with work in flight can be expanded. */
export function LoopsTable({ status }: { readonly status: Status }): JSX.Element {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [text, setText] = useState("");
  const [state, setState] = useState<keyof typeof STATES>("");
  const filtered = text !== "" || state !== "";
  const found = useAll(status, filtered).loops.filter((loop) => {
    const { name, mailbox = "" } = loop;
    return STATES[state].accepts(loop) && (contains(name, text) || contains(mailbox, text));
  });
  const loops = found.sort((a, b) => urgencyOf(b) - urgencyOf(a)).slice(0, MAX_ROWS);
  const left = filtered ? found.length - loops.length : status.totals.loops - loops.length;
  return (
    <Section id="loops" heading="Loops">
      {status.totals.loops > FILTER_FROM && (
        <Find
          noun="loop"
          text={text}
          onText={setText}
          found={filtered ? found.length : undefined}
        >
          <label>
            State{" "}
            <select
              value={state}
              onChange={({ currentTarget }) => setState(currentTarget.value as typeof state)}
            >
              {Object.entries(STATES).map(([value, { text }]) => (
                <option key={value} value={value}>{text}</option>
              ))}
            </select>
          </label>
        </Find>
      )}
      {loops.length === 0
        ? <p class="more">{filtered ? "No loops match." : "No loops."}</p>
        : (
          <Table caption="Loops and the counts of their messages" columns={COLUMNS}>
            {loops.map((loop) => (
              <Fragment key={loop.name}>
                <Loop
                  loop={loop}
                  at={status.at}
                  open={opened.has(loop.name)}
                  onToggle={() => setOpened(toggled(opened, loop.name))}
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

/** Ranks failing loops first. Others keep their order, so that rows do not jump. */
function urgencyOf(loop: LoopStatus): number {
  return toneOf(loop) === "bad" ? 2 : loop.state === "backing_off" ? 1 : 0;
}

function Loop(
  { loop, at, open, onToggle }: {
    readonly loop: LoopStatus;
    readonly at: number;
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
          {loop.cron && <Slots cron={loop.cron} at={at} />}
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

/** Shows the last and the next slot of a cron loop. */
function Slots(
  { cron: { last, next }, at }: { readonly cron: CronStatus; readonly at: number },
): JSX.Element {
  return (
    <small>
      {next === undefined
        ? "no next slot"
        : `next ${moment(next, at)}, in ${duration(Math.max(0, next - at))}`}
      {last !== undefined && `; last ${moment(last, at)}`}
    </small>
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
