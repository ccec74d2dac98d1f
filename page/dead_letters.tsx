// The view of the dead letters of one mailbox.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { LetterStatus, MailboxStatus, Status } from "../src/health/status.ts";
import { type Access, type Outcome, send } from "./client.ts";
import { useAll } from "./find.tsx";
import { count, moment, plain, several } from "./format.ts";
import { type Action, type ActionAnswer, changed, type Entry, List } from "./list.tsx";
import { Filters, Locked, submit } from "./list_filters.tsx";
import { listPath } from "./list_page.ts";
import { Cell, Confirm, RowHeader, Section, Table } from "./parts.tsx";
import type { Route } from "./route.ts";

interface Letter extends Entry {
  readonly reason: string;
  readonly error?: string;
  readonly deadAt: number;
}

/** The reasons that the package gives. Handlers may give others. */
const REASONS = ["max_deliveries", "handler_error", "schema", "expired", "unreadable"];

/** The most entries of one request. */
const MAX_IDS = 100;

const REDRIVE: Action<Letter> = {
  label: "Redrive",
  path: "redrive",
  done: "redriven",
  question: (what) => `Redrive ${what}?`,
  warning: "The messages return to the mailbox. Those that fail again become dead letters again.",
  applies: () => true,
};

const DELETE: Action<Letter> = {
  label: "Delete",
  path: "dead-letters/delete",
  done: "deleted",
  question: (what) => `Delete ${what}?`,
  warning: "The messages are removed without being handled. This cannot be undone.",
  applies: () => true,
};

/** Shows the dead letters of the mailbox that the route names, or of the first one that has any. */
export function DeadLetters(
  { status, route, token, onToken }: Access & { readonly status: Status; readonly route: Route },
): JSX.Element {
  const { mailboxes } = useAll(status, token !== undefined);
  const mailbox = mailboxes.find(({ name }) => name === route.mailbox) ??
    (route.mailbox === undefined
      ? mailboxes.find(({ dead = 0 }) => dead > 0) ?? mailboxes[0]
      : { name: route.mailbox, reachable: true });
  if (mailbox === undefined) {
    return (
      <Section id="letters" heading="Dead letters">
        <p class="more">No mailboxes.</p>
      </Section>
    );
  }
  const here = { ...route, mailbox: mailbox.name };
  const reason = route.filters["reason"] ?? "";
  const { letters = [], dead } = mailbox;
  const reasons = new Set([...REASONS, ...letters.map((it) => it.reason), reason].filter(Boolean));
  return (
    <Section id="letters" heading="Dead letters">
      {token === undefined ? <Public status={status} /> : (
        <>
          <Filters route={here} mailboxes={mailboxes} countOf={({ dead }) => dead}>
            <label>
              Reason{" "}
              <select name="reason" value={reason} onChange={submit}>
                <option value="">any</option>
                {[...reasons].map((it) => <option key={it} value={it}>{plain(it)}</option>)}
              </select>
            </label>
          </Filters>
          <List<Letter>
            key={listPath(here)}
            route={here}
            token={token}
            onToken={onToken}
            noun="dead letter"
            total={dead}
            columns={["Reason", "#Deliveries", "Dead since", "Error"]}
            cells={(letter) => (
              <>
                <LetterCells letter={letter} at={status.at} />
                <Cell label="Error">
                  {letter.error && <span class="error clip">{letter.error}</span>}
                </Cell>
              </>
            )}
            actions={[REDRIVE, DELETE]}
            more={(report) => (
              <All mailbox={mailbox} route={here} token={token} onToken={onToken} report={report} />
            )}
          />
        </>
      )}
    </Section>
  );
}

/** Shows the oldest dead letters of every mailbox, without their contents, to all users. */
function Public({ status }: { readonly status: Status }): JSX.Element {
  const found = status.mailboxes.filter(({ dead = 0 }) => dead > 0);
  return (
    <>
      <Locked controls={status.controls} what="read, redrive and delete dead letters" />
      {found.length === 0 && <p class="more">No dead letters.</p>}
      {found.map(({ name, dead = 0, letters = [] }) => (
        <div key={name}>
          <Table
            caption={`Dead letters of ${name}, oldest first`}
            columns={["Message", "Reason", "#Deliveries", "Dead since"]}
          >
            {letters.map((letter) => (
              <tr role="row" key={letter.id}>
                <RowHeader>
                  <code>{letter.id}</code>
                </RowHeader>
                <LetterCells letter={letter} at={status.at} />
              </tr>
            ))}
          </Table>
          {dead > letters.length && <p class="more">and {count(dead - letters.length)} more</p>}
        </div>
      ))}
    </>
  );
}

function LetterCells(
  { letter, at }: { readonly letter: LetterStatus; readonly at: number },
): JSX.Element {
  const { reason, deliveryCount, deadAt } = letter;
  return (
    <>
      <Cell label="Reason">{plain(reason)}</Cell>
      <Cell label="#Deliveries">{count(deliveryCount)}</Cell>
      <Cell label="Dead since">
        <time dateTime={new Date(deadAt).toISOString()}>{moment(deadAt, at)}</time>
      </Cell>
    </>
  );
}

interface AllProps extends Access {
  readonly token: string;
  readonly mailbox: MailboxStatus;
  readonly route: Route;
  readonly report: (text: string) => void;
}

/** Shows the buttons for all dead letters that match the filters. */
function All(props: AllProps): JSX.Element {
  const { mailbox: { name, dead = 0 }, route, report, onToken } = props;
  const [asked, setAsked] = useState<Action<Letter>>();
  const [busy, setBusy] = useState(false);
  const filtered = Object.keys(route.filters).length > 0;
  const what = filtered
    ? `all dead letters of ${name} that match`
    : `all ${several(dead, "dead letter")} of ${name}`;
  const act = async (action: Action<Letter>) => {
    setBusy(true);
    const outcome = await actOnAll(action, props);
    setBusy(false);
    if (outcome.kind === "refused") onToken(undefined);
    else if (outcome.kind === "failed") report(`Failed: ${outcome.why}`);
    else report(`${several(outcome.answer, "dead letter")} ${action.done}.`);
  };
  return (
    <>
      {[REDRIVE, DELETE].map((action) => (
        <button
          key={action.label}
          type="button"
          disabled={busy || dead === 0}
          onClick={() => setAsked(action)}
        >
          {action.label} all{filtered && " that match"}
        </button>
      ))}
      {asked && (
        <Confirm
          question={asked.question(what)}
          text={asked.warning}
          action={asked.label}
          onAnswer={(yes) => {
            setAsked(undefined);
            if (yes) act(asked);
          }}
        />
      )}
    </>
  );
}

/**
 * Acts on as many dead letters as there are now, in several requests. A message that fails again is not
 * redriven twice without an end.
 */
async function actOnAll(
  action: Action<Letter>,
  { mailbox: { name, dead = 0 }, route, token }: AllProps,
): Promise<Outcome<number>> {
  const path = `${action.path}?mailbox=${encodeURIComponent(name)}`;
  let [total, skip] = [0, 0];
  while (total < dead) {
    if (action === REDRIVE && Object.keys(route.filters).length === 0) {
      const outcome = await send<ActionAnswer>("POST", path, token);
      if (outcome.kind !== "done") return outcome;
      if (changed(outcome.answer) === 0) break;
      total += changed(outcome.answer);
      continue;
    }
    const list = await send<{ readonly letters: readonly Letter[]; readonly next?: number }>(
      "GET",
      `${listPath(route)}&skip=${skip}&limit=${MAX_IDS}`,
      token,
    );
    if (list.kind !== "done") return list;
    const { letters, next } = list.answer;
    let done = 0;
    if (letters.length > 0) {
      const ids = [...new Set(letters.map(({ id }) => id))];
      const outcome = await send<ActionAnswer>("POST", path, token, { ids });
      if (outcome.kind !== "done") return outcome;
      done = changed(outcome.answer);
      total += done;
    }
    if (next === undefined) break;
    skip = next - done; // the removed letters leave no gap
  }
  return { kind: "done", answer: total };
}
