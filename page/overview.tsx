// Totals of all loops and mailboxes.

import type { ComponentChildren, JSX } from "preact";
import type { History, Status } from "../src/health/status.ts";
import { highestRate } from "./charts.tsx";
import { count, duration, plain, rate, several } from "./format.ts";
import { hashOf } from "./route.ts";
import type { Tone } from "./summary.ts";

/** Shows the totals as tiles. */
export function Overview(
  { status, history }: { readonly status: Status; readonly history: History | undefined },
): JSX.Element {
  const { totals, mailboxes, phase } = status;
  // During a shutdown loops are expected not to be ready.
  const stopping = status.stop !== undefined || phase === "stopped";
  const unready = totals.loops - totals.ready;
  const { counts } = totals;
  const sum = (numbers: readonly (number | undefined)[]) =>
    numbers.reduce<number>((total, it) => total + (it ?? 0), 0);
  const dead = sum(mailboxes.map((mailbox) => mailbox.dead));
  const peak = highestRate(history);
  const unreachable = mailboxes.filter(({ reachable }) => !reachable).length;
  return (
    <section aria-label="Totals">
      <dl class="tiles">
        <Tile
          name="Loops ready"
          note={unready === 0 ? "all" : stopping ? plain(phase) : `${count(unready)} not ready`}
          tone={unready > 0 && !stopping ? "bad" : undefined}
        >
          {count(totals.ready)}
          <small>/{count(totals.loops)}</small>
        </Tile>
        <Tile
          name="In flight"
          note={totals.inFlight > 0 ? `oldest ${duration(totals.oldestMs)}` : "none"}
        >
          {count(totals.inFlight)}
        </Tile>
        <Tile name="Per second" note={peak ? `at most ${rate(peak)}` : "last hour"}>
          {totals.perSecond === undefined ? "–" : rate(totals.perSecond)}
        </Tile>
        <Tile name="Acknowledged" note={`${count(counts.nacked)} nacked`}>
          {count(counts.acknowledged)}
        </Tile>
        <Tile
          name="Messages"
          note={unreachable > 0
            ? `${count(unreachable)} unreachable`
            : `in ${several(mailboxes.length, "mailbox", "mailboxes")}`}
          tone={unreachable > 0 ? "bad" : undefined}
        >
          {count(sum(mailboxes.map(({ messages }) => messages)))}
        </Tile>
        <Tile
          name="Dead letters"
          note={dead > 0 ? <a href={hashOf({ view: "dead-letters" })}>show</a> : "none"}
          tone={dead > 0 ? "busy" : undefined}
        >
          {count(dead)}
        </Tile>
      </dl>
    </section>
  );
}

function Tile(
  { name, note, tone, children }: {
    readonly name: string;
    readonly note: ComponentChildren;
    readonly tone?: Tone | undefined;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <div class={`tile ${tone ?? ""}`}>
      <dt>{name}</dt>
      <dd>{children}</dd>
      <dd class="note">{note}</dd>
    </div>
  );
}
