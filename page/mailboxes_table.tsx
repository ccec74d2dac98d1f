// The table of mailboxes.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { History, MailboxStatus, Status } from "../src/health/status.ts";
import { Sparkline } from "./charts.tsx";
import { BASE } from "./client.ts";
import { contains, FILTER_FROM, Find, useAll } from "./find.tsx";
import { Badge, Cell, RowHeader, Section, Table } from "./parts.tsx";
import { count, duration, limit, several } from "./format.ts";
import { hashOf } from "./route.ts";

const COLUMNS = [
  "Mailbox",
  "Engine",
  "#Waiting",
  "#Oldest waiting",
  "#Delayed",
  "#In flight",
  "#Dead letters",
  "Last hour",
] as const;

/** The most rows, so that the page stays fast. */
const MAX_ROWS = 50;

/** Shows the mailboxes. */
export function MailboxesTable(
  { status, history }: { readonly status: Status; readonly history: History | undefined },
): JSX.Element | null {
  const [text, setText] = useState("");
  const all = useAll(status, text !== "").mailboxes;
  if (status.mailboxes.length === 0) return null;
  const found = all.filter(({ name }) => contains(name, text));
  const mailboxes = found.slice(0, MAX_ROWS);
  const total = status.mailboxes.length + (status.leftOut?.mailboxes ?? 0);
  const left = (text === "" ? total : found.length) - mailboxes.length;
  return (
    <Section id="mailboxes" heading="Mailboxes">
      {total > FILTER_FROM && (
        <Find
          noun="mailbox"
          many="mailboxes"
          text={text}
          onText={setText}
          found={text === "" ? undefined : found.length}
        />
      )}
      {mailboxes.length === 0
        ? <p class="more">No mailboxes match.</p>
        : (
          <Table caption="Mailboxes and their message counts" columns={COLUMNS}>
            {mailboxes.map((mailbox) => (
              <Row key={mailbox.name} mailbox={mailbox} history={history} />
            ))}
          </Table>
        )}
      {left > 0 && (
        <p class="more">
          and {several(left, "more mailbox", "more mailboxes")}.{" "}
          <a href={`${BASE}status`}>status</a> lists all.
        </p>
      )}
    </Section>
  );
}

function Row(
  { mailbox, history }: {
    readonly mailbox: MailboxStatus;
    readonly history: History | undefined;
  },
): JSX.Element {
  const { name, engine, reachable, error, oldestWaitingMs, dead, rateLimit } = mailbox;
  const messages = (state: string, value: number | undefined) =>
    linked(hashOf({ view: "messages", mailbox: name, filters: { state } }), value);
  return (
    <tr role="row" class={reachable ? "" : "away"}>
      <RowHeader>
        {name} {mailbox.paused && <Badge tone="busy">{paused(mailbox)}</Badge>}
        {rateLimit && <small>at most {limit(rateLimit)}</small>}
      </RowHeader>
      <Cell label="Engine">
        <Badge tone={reachable ? "good" : "bad"}>{reachable ? "reachable" : "unreachable"}</Badge>
        {engine && ` ${engine}`}
        {mailbox.ownerDetection && <small>notices dead workers</small>}
        {error && <span class="error">{error}</span>}
      </Cell>
      <Cell label="#Waiting">{messages("waiting", mailbox.waiting)}</Cell>
      <Cell label="#Oldest waiting">
        {oldestWaitingMs === undefined ? undefined : duration(oldestWaitingMs)}
      </Cell>
      <Cell label="#Delayed">{messages("delayed", mailbox.delayed)}</Cell>
      <Cell label="#In flight">{messages("inFlight", mailbox.inFlight)}</Cell>
      <Cell label="#Dead letters" tone={dead ? "busy" : undefined}>
        {linked(hashOf({ view: "dead-letters", mailbox: name }), dead)}
      </Cell>
      <Cell label="Last hour">{history && <Sparkline history={history} mailbox={name} />}</Cell>
    </tr>
  );
}

function paused({ pausedForMs }: MailboxStatus): string {
  return pausedForMs === undefined ? "paused" : `paused, ${duration(pausedForMs)} left`;
}

/** Shows a count with a link to what it counts. */
function linked(href: string, value: number | undefined): JSX.Element | string | undefined {
  return value ? <a href={href}>{count(value)}</a> : value?.toString();
}
