// The tables of mailboxes and of their dead letters.

import { Fragment, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { MailboxStatus, Status } from "../src/health/status.ts";
import { BASE, send } from "./client.ts";
import { Badge, Cell, Confirm, Result, RowHeader, Section, Table } from "./parts.tsx";
import { count, duration, limit, plain, several } from "./format.ts";

interface Props {
  readonly status: Status;
  readonly token: string | undefined;
  readonly onToken: (token: string | undefined) => void;
}

const COLUMNS = [
  "Mailbox",
  "Engine",
  "#Waiting",
  "#Oldest waiting",
  "#Delayed",
  "#In flight",
  "#Dead letters",
] as const;

/** Shows the mailboxes. */
export function MailboxesTable({ status }: { readonly status: Status }): JSX.Element | null {
  const { mailboxes } = status;
  if (mailboxes.length === 0) return null;
  const left = status.leftOut?.mailboxes ?? 0;
  return (
    <Section id="mailboxes" heading="Mailboxes">
      <Table caption="Mailboxes and their message counts" columns={COLUMNS}>
        {mailboxes.map((mailbox) => <Row key={mailbox.name} mailbox={mailbox} />)}
      </Table>
      {left > 0 && (
        <p class="more">
          and {several(left, "more mailbox", "more mailboxes")}.{" "}
          <a href={`${BASE}status`}>status</a> lists all.
        </p>
      )}
    </Section>
  );
}

function Row({ mailbox }: { readonly mailbox: MailboxStatus }): JSX.Element {
  const { name, engine, reachable, error, oldestWaitingMs, dead, rateLimit } = mailbox;
  return (
    <tr role="row">
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
      <Cell label="#Waiting">{counted(mailbox.waiting)}</Cell>
      <Cell label="#Oldest waiting">
        {oldestWaitingMs === undefined ? undefined : duration(oldestWaitingMs)}
      </Cell>
      <Cell label="#Delayed">{counted(mailbox.delayed)}</Cell>
      <Cell label="#In flight">{counted(mailbox.inFlight)}</Cell>
      <Cell label="#Dead letters" tone={dead ? "busy" : undefined}>{counted(dead)}</Cell>
    </tr>
  );
}

function paused({ pausedForMs }: MailboxStatus): string {
  return pausedForMs === undefined ? "paused" : `paused, ${duration(pausedForMs)} left`;
}

function counted(value: number | undefined): string | undefined {
  return value === undefined ? undefined : count(value);
}

/** Shows the dead letters of each mailbox that has any. */
export function DeadLetters({ status, token, onToken }: Props): JSX.Element {
  return (
    <>
      {status.mailboxes.filter(({ dead = 0 }) => dead > 0).map((mailbox) => (
        <Fragment key={mailbox.name}>
          <MailboxDeadLetters mailbox={mailbox} token={token} onToken={onToken} />
        </Fragment>
      ))}
    </>
  );
}

function MailboxDeadLetters(
  { mailbox, token, onToken }: Omit<Props, "status"> & { readonly mailbox: MailboxStatus },
): JSX.Element {
  const { name, dead = 0, letters = [] } = mailbox;
  const errors = useErrors(mailbox, token);
  const more = dead - letters.length;
  return (
    <Section
      id={`letters-${name}`}
      heading={`Dead letters of ${name}`}
      aside={token && <Redrive mailbox={mailbox} token={token} onToken={onToken} />}
    >
      {letters.length > 0 && (
        <Table
          caption={`Dead letters of ${name}, oldest first`}
          columns={["Message", "Reason", "#Deliveries", "Dead since", ...(token ? ["Error"] : [])]}
        >
          {letters.map(({ id, reason, deliveryCount, deadAt }) => (
            <tr role="row" key={id}>
              <RowHeader>
                <code>{id}</code>
              </RowHeader>
              <Cell label="Reason">{plain(reason)}</Cell>
              <Cell label="#Deliveries">{count(deliveryCount)}</Cell>
              <Cell label="Dead since">
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

/** Fetches the errors of the dead letters, and again when their ids change. */
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
    send<Answer>("GET", path, token).then((outcome) => {
      if (outcome.kind !== "done") return;
      setErrors(new Map(outcome.answer.letters.map(({ id, error = "" }) => [id, error])));
    });
  }, [token, name, ids]);
  return errors;
}

function Redrive(
  { mailbox: { name, dead = 0 }, token, onToken }: {
    readonly mailbox: MailboxStatus;
    readonly token: string;
    readonly onToken: Props["onToken"];
  },
): JSX.Element {
  const [asking, setAsking] = useState(false);
  const [result, setResult] = useState("");
  const redrive = async () => {
    const path = `redrive?mailbox=${encodeURIComponent(name)}`;
    const outcome = await send<{ readonly redriven: number }>("POST", path, token);
    if (outcome.kind === "refused") return onToken(undefined);
    setResult(
      outcome.kind === "done"
        ? `${several(outcome.answer.redriven, "message")} redriven.`
        : `Failed: ${outcome.why}.`,
    );
  };
  return (
    <div class="aside">
      {result && <Result text={result} />}
      <button type="button" onClick={() => setAsking(true)}>Redrive</button>
      {asking && (
        <Confirm
          question={`Redrive ${name}?`}
          text={`This redrives ${
            several(Math.min(dead, 1_000), "dead letter")
          } to ${name}. Messages that fail again return here.`}
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
