// The view of the messages of one mailbox.

import type { JSX } from "preact";
import type { Status } from "../src/health/status.ts";
import type { MessageState } from "../src/mailbox/engine.ts";
import type { Access } from "./client.ts";
import { useAll } from "./find.tsx";
import { age, count } from "./format.ts";
import { type Action, type Entry, List } from "./list.tsx";
import { Filters, Locked, submit } from "./list_filters.tsx";
import { listPath } from "./list_page.ts";
import { Badge, Cell, Fact, Section } from "./parts.tsx";
import type { Route } from "./route.ts";
import type { Tone } from "./summary.ts";

interface Message extends Entry {
  readonly state?: MessageState;
  readonly expiresAt?: number;
  readonly priority?: number;
  readonly replyTo?: string;
  readonly steps?: readonly { readonly name: string }[];
}

const STATES: Readonly<Record<MessageState, { readonly text: string; readonly tone: Tone }>> = {
  waiting: { text: "waiting", tone: "quiet" },
  delayed: { text: "delayed", tone: "busy" },
  inFlight: { text: "in flight", tone: "good" },
};

const ACTIONS: readonly Action<Message>[] = [
  {
    label: "Retry now",
    path: "messages/deliver-now",
    done: "visible now",
    question: (what) => `Retry ${what} now?`,
    warning: "A delayed message becomes visible at once, before its delay has passed.",
    applies: ({ state }) => state === "delayed",
  },
  {
    label: "Cancel",
    path: "messages/cancel",
    done: "cancelled",
    question: (what) => `Cancel ${what}?`,
    warning: "The running handler is cancelled and the message is removed. It is not retried.",
    applies: ({ state }) => state === "inFlight",
  },
  {
    label: "Delete",
    path: "messages/cancel",
    done: "deleted",
    question: (what) => `Delete ${what}?`,
    warning: "The message is removed without being handled. This cannot be undone.",
    applies: ({ state }) => state !== "inFlight",
  },
];

/** Shows the messages of the mailbox that the route names, or of the first one. */
export function Messages(
  { status, route, token, onToken }: Access & { readonly status: Status; readonly route: Route },
): JSX.Element {
  const { at } = status;
  const { mailboxes } = useAll(status, token !== undefined);
  const [first] = mailboxes;
  const mailbox = route.mailbox ?? first?.name;
  if (mailbox === undefined) {
    return (
      <Section id="messages" heading="Messages">
        <p class="more">No mailboxes.</p>
      </Section>
    );
  }
  const here = { ...route, mailbox };
  return (
    <Section id="messages" heading="Messages">
      {token === undefined ? <Locked controls={status.controls} what="read messages" /> : (
        <>
          <Filters route={here} mailboxes={mailboxes} countOf={({ messages }) => messages}>
            <label>
              State{" "}
              <select name="state" value={route.filters["state"] ?? ""} onChange={submit}>
                <option value="">any</option>
                {Object.entries(STATES).map(([state, { text }]) => (
                  <option key={state} value={state}>{text}</option>
                ))}
              </select>
            </label>
          </Filters>
          <List<Message>
            key={listPath(here)}
            route={here}
            token={token}
            onToken={onToken}
            noun="message"
            total={mailboxes.find(({ name }) => name === mailbox)?.messages}
            columns={["State", "#Deliveries", "#Age", "Key"]}
            cells={({ state, deliveryCount, enqueuedAt, key }) => (
              <>
                <Cell label="State">
                  {state && <Badge tone={STATES[state].tone}>{STATES[state].text}</Badge>}
                </Cell>
                <Cell label="#Deliveries">{count(deliveryCount)}</Cell>
                <Cell label="#Age">{age(enqueuedAt, at)}</Cell>
                <Cell label="Key">{key}</Cell>
              </>
            )}
            facts={(message) => <Facts message={message} />}
            actions={ACTIONS}
          />
        </>
      )}
    </Section>
  );
}

function Facts({ message }: { readonly message: Message }): JSX.Element {
  const { expiresAt, priority, replyTo, steps = [] } = message;
  return (
    <>
      {expiresAt !== undefined && <Fact name="Expires">{new Date(expiresAt).toLocaleString()}
      </Fact>}
      {priority !== undefined && <Fact name="Priority">{priority}</Fact>}
      {replyTo !== undefined && <Fact name="Reply to">{replyTo}</Fact>}
      {steps.length > 0 && (
        <Fact name="Finished steps">{steps.map(({ name }) => name).join(", ")}</Fact>
      )}
    </>
  );
}
