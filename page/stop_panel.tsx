// The progress of a shutdown: phases, remaining time and work in flight.

import type { JSX } from "preact";
import type { Status } from "../src/health/status.ts";
import { PHASES } from "../src/lifecycle/group_events.ts";
import { Cell, Fact, RowHeader, Section, Table } from "./parts.tsx";
import { count, duration, plain, several, title } from "./format.ts";

/** The phases that the panel shows: all but `starting`. */
const STEPS = PHASES.slice(1);

const MAX_WORK = 10;

/** Shows the panel during and after a shutdown, and while the group is paused; in short without the work. */
export function StopPanel(
  { status, short }: { readonly status: Status; readonly short: boolean },
): JSX.Element | null {
  const { phase, stop, end, paused, totals } = status;
  const stopping = stop !== undefined || phase === "stopped";
  if (!stopping && !paused) return null;
  const { released, leftToExpire } = totals.counts;
  return (
    <Section id="stop" heading={stopping ? "Shutdown" : "Paused"}>
      {stopping && <Steps status={status} />}
      {stop && <TimeLeft stop={stop} over={phase === "stopped"} />}
      <dl class="facts">
        {stop && <Fact name="Reason">{stop.reason}</Fact>}
        {end && <Fact name="Outcome">{plain(end.outcome)}</Fact>}
        {end && <Fact name="Exit code">{end.exitCode}</Fact>}
        <Fact name="In flight">{count(totals.inFlight)}</Fact>
        <Fact name="Released">{several(released, "message")}</Fact>
        {phase === "stopped" && leftToExpire > 0 && (
          <Fact name="Left to expire">{several(leftToExpire, "message")}</Fact>
        )}
      </dl>
      {!short && <WorkInFlight status={status} />}
    </Section>
  );
}

/** Marks the phases as past, current or skipped. */
function Steps({ status: { phase, phases } }: { readonly status: Status }): JSX.Element {
  const at = STEPS.findIndex((step) => step === phase);
  const look = (step: typeof STEPS[number], i: number) => {
    if (!phases.includes(step)) return i < at ? "skipped" : "";
    return i === at && phase !== "stopped" ? "now" : "past";
  };
  return (
    <ol class="steps">
      {STEPS.map((step, i) => (
        <li key={step} class={look(step, i)} aria-current={i === at ? "step" : undefined}>
          {title(step)}
          {look(step, i) === "skipped" && <span class="unseen">, skipped</span>}
        </li>
      ))}
    </ol>
  );
}

/** A shutdown without a time limit has no `timeoutMs`, because JSON has no infinity. */
function TimeLeft(
  { stop, over }: { readonly stop: NonNullable<Status["stop"]>; readonly over: boolean },
): JSX.Element {
  const { elapsedMs, remainingMs, timeoutMs } = stop;
  if (over) return <p class="left">Took {duration(elapsedMs)}.</p>;
  if (!timeoutMs) return <p class="left">{duration(elapsedMs)} so far, no time limit.</p>;
  return (
    <div class="left">
      <p>
        <strong>{duration(remainingMs)} left</strong> of {duration(timeoutMs)}
      </p>
      <progress aria-label="Time used" max={timeoutMs} value={timeoutMs - remainingMs} />
    </div>
  );
}

function WorkInFlight({ status }: { readonly status: Status }): JSX.Element | null {
  const work = status.loops.flatMap(({ name, work }) => work.map((it) => ({ ...it, loop: name })))
    .sort((a, b) => b.ageMs - a.ageMs)
    .slice(0, MAX_WORK);
  if (work.length === 0) return null;
  const more = status.totals.inFlight - work.length;
  return (
    <>
      <Table caption="Work in flight, oldest first" columns={["Work", "Loop", "#Age"]}>
        {work.map(({ id, loop, ageMs }) => (
          <tr role="row" key={`${loop} ${id}`}>
            <RowHeader>
              <code>{id}</code>
            </RowHeader>
            <Cell label="Loop">{loop}</Cell>
            <Cell label="#Age">{duration(ageMs)}</Cell>
          </tr>
        ))}
      </Table>
      {more > 0 && <p class="more">and {count(more)} more</p>}
    </>
  );
}
