// The mailboxes, and what failed for good.

import { Fragment, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { MailboxStatus, Status } from "../src/health/status.ts";
import { ask } from "./access.ts";
import { BASE } from "./connection.ts";
import { Badge, Cell, Confirm, Result, RowHeader, Section, Table } from "./parts.tsx";
import { count, plain, several } from "./words.ts";

interface Props {
  readonly status: Status;
  readonly token: string | undefined;
  readonly onToken: (token: string | undefined) => void;
}

const COLUMNS = ["Mailbox", "Engine", "#Messages", "#Dead letters"] as const;

/** One row for each mailbox. */
export function MailboxesTable({ status }: { readonly status: Status }): JSX.Element | null {
  const { mailboxes } = status;
  if (mailboxes.length === 0) return null;
  const left = status.leftOut?.mailboxes ?? 0;
  return (
    <Section id="mailboxes" heading="Mailboxes">
      <Table caption="Mailboxes and how much is in them" columns={COLUMNS}>
        {mailboxes.map(({ name, engine, reachable, error, messages, deadLetters }) => (
          <tr role="row" key={name}>
            <RowHeader>{name}</RowHeader>
            <Cell label="Engine">
              <Badge tone={reachable ? "good" : "bad"}>{reachable ? "reachable" : "away"}</Badge>
              {engine && ` ${engine}`}
              {error && <span class="error">{error}</span>}
            </Cell>
            <Cell label="#Messages">{messages === undefined ? undefined : count(messages)}</Cell>
            <Cell label="#Dead letters" tone={deadLetters ? "busy" : undefined}>
              {deadLetters === undefined ? undefined : count(deadLetters)}
            </Cell>
          </tr>
        ))}
      </Table>
      {left > 0 && (
        <p class="more">
          and {several(left, "more mailbox", "more mailboxes")};{" "}
          <a href={`${BASE}status`}>status</a> has all
        </p>
      )}
    </Section>
  );
}

/** The dead letters of every mailbox that has any. */
export function DeadLetters({ status, token, onToken }: Props): JSX.Element {
  return (
    <>
      {status.mailboxes.filter(({ deadLetters = 0 }) => deadLetters > 0).map((mailbox) => (
        <Fragment key={mailbox.name}>
          <Letters mailbox={mailbox} token={token} onToken={onToken} />
        </Fragment>
      ))}
    </>
  );
}

function Letters(
  { mailbox, token, onToken }: Omit<Props, "status"> & { readonly mailbox: MailboxStatus },
): JSX.Element {
  const { name, deadLetters = 0, letters = [] } = mailbox;
  const errors = useErrors(mailbox, token);
  const more = deadLetters - letters.length;
  return (
    <Section
      id={`letters-${name}`}
      heading={`Dead letters of ${name}`}
      aside={token && <Redrive mailbox={mailbox} token={token} onToken={onToken} />}
    >
      {letters.length > 0 && (
        <Table
          caption={`Messages of ${name} that failed for good, the oldest first`}
          columns={["Message", "Reason", "#Deliveries", "Since", ...(token ? ["Error"] : [])]}
        >
          {letters.map(({ id, reason, deliveryCount, deadAt }) => (
            <tr role="row" key={id}>
              <RowHeader>
                <code>{id}</code>
              </RowHeader>
              <Cell label="Reason">{plain(reason)}</Cell>
              <Cell label="#Deliveries">{count(deliveryCount)}</Cell>
              <Cell label="Since">
                <time dateTime={new Date(deadAt).toISOString()}>
                  {new Date(deadAt).toLocaleString()}
                </time>
              </Cell>
              {token && (
                <Cell label="Error">
                  {errors.get(id) && <span class="error">{errors.get(id)}</span>}
                </Cell>
              )}
            </tr>
          ))}
        </Table>
      )}
      {more > 0 && <p class="more">and {count(more)} more</p>}
    </Section>
  );
}

/** What the letters failed with, asked for again when there are others. */
function useErrors(
  { name, letters = [] }: MailboxStatus,
  token: string | undefined,
): ReadonlyMap<string, string> {
  const [errors, setErrors] = useState<ReadonlyMap<string, string>>(new Map());
  const ids = letters.map(({ id }) => id).join(" ");
  useEffect(() => {
    if (token === undefined) return setErrors(new Map());
    type Answer = { readonly letters: readonly { readonly id: string; readonly error?: string }[] };
    const path = `dead-letters?mailbox=${encodeURIComponent(name)}`;
    ask<Answer>("GET", path, token).then((outcome) => {
      if (outcome.kind !== "done") return;
      setErrors(new Map(outcome.answer.letters.map(({ id, error = "" }) => [id, error])));
    });
  }, [token, name, ids]);
  return errors;
}

function Redrive(
  { mailbox: { name, deadLetters = 0 }, token, onToken }: {
    readonly mailbox: MailboxStatus;
    readonly token: string;
    readonly onToken: Props["onToken"];
  },
): JSX.Element {
  const [asking, setAsking] = useState(false);
  const [result, setResult] = useState("");
  const redrive = async () => {
    const path = `redrive?mailbox=${encodeURIComponent(name)}`;
    const outcome = await ask<{ readonly redriven: number }>("POST", path, token);
    if (outcome.kind === "refused") return onToken(undefined);
    setResult(
      outcome.kind === "done"
        ? `${several(outcome.answer.redriven, "message")} sent back.`
        : `That did not work: ${outcome.why}.`,
    );
  };
  return (
    <div class="aside">
      {result && <Result text={result} />}
      <button type="button" onClick={() => setAsking(true)}>Redrive</button>
      {asking && (
        <Confirm
          question={`Redrive ${name}?`}
          text={`${
            several(Math.min(deadLetters, 1_000), "dead letter goes", "dead letters go")
          } back to ${name} and will be tried again. What still fails comes back here.`}
          action="Redrive"
          onAnswer={(yes) => {
            setAsking(false);
            if (yes) redrive();
          }}
        />
      )}
    </div>
  );
}
