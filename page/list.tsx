// A list of messages or dead letters: selection, details and actions. It needs the token.

import { type ComponentChildren, Fragment, type JSX } from "preact";
import { useState } from "preact/hooks";
import { type Access, send } from "./client.ts";
import { count, several, title } from "./format.ts";
import { Confirm, Fact, Result, RowHeader, Table, toggled } from "./parts.tsx";
import { type Page, usePage } from "./list_page.ts";
import type { Route } from "./route.ts";

/**
 * What messages and dead letters share. The server cuts a long body, checkpoint or error: `bodyText` is then its
 * beginning and `bodyLength` its length.
 */
export interface Entry {
  readonly id: string;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An action on the selected entries. */
export interface Action<T> {
  readonly label: string;
  readonly path: string;
  /** What happened, as in `deleted`. */
  readonly done: string;
  /** The question of the confirmation, as in `Delete 2 messages of orders?` */
  readonly question: (what: string) => string;
  readonly warning: string;
  /** Whether the action is possible for an entry. */
  applies(entry: T): boolean;
}

/** The answer to an action. */
export interface ActionAnswer {
  readonly done?: readonly string[];
  readonly redriven?: number;
  readonly missing?: readonly string[];
}

/** Properties of {@linkcode List}. */
export interface ListProps<T> extends Access {
  readonly token: string;
  readonly route: Route & { readonly mailbox: string };
  /** The name of an entry, as in `dead letter`. */
  readonly noun: string;
  /** The number of entries without a filter, where it is known. */
  readonly total: number | undefined;
  /** The columns after the id. */
  readonly columns: readonly string[];
  readonly cells: (entry: T) => ComponentChildren;
  /** Facts besides those that all entries have. */
  readonly facts?: (entry: T) => ComponentChildren;
  readonly actions: readonly Action<T>[];
  /** Further buttons. They report their result. */
  readonly more?: (report: (text: string) => void) => ComponentChildren;
}

/** Returns how many entries an action has changed. */
export function changed({ done, redriven }: ActionAnswer): number {
  return redriven ?? done?.length ?? 0;
}

/** Shows one page of a list. A new mailbox or filter needs a new component, by its key. */
export function List<T extends Entry>(props: ListProps<T>): JSX.Element {
  const { token, onToken, route, noun, columns, actions } = props;
  const { mailbox } = route;
  const page = usePage<T>(props);
  const { entries } = page;
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<{ readonly action: Action<T>; readonly ids: string[] }>();
  const [result, setResult] = useState<{ readonly text: string }>();
  const chosen = entries.filter(({ id }) => selected.has(id));
  const report = (text: string) => {
    setResult({ text });
    page.reload();
  };
  const act = async (action: Action<T>, ids: readonly string[]) => {
    const path = `${action.path}?mailbox=${encodeURIComponent(mailbox)}`;
    const outcome = await send<ActionAnswer>("POST", path, token, { ids });
    if (outcome.kind === "refused") return onToken(undefined);
    if (outcome.kind === "failed") return report(`Failed: ${outcome.why}`);
    const missing = outcome.answer.missing?.length ?? 0;
    setSelected(new Set());
    report(
      `${several(changed(outcome.answer), noun)} ${action.done}.${
        missing > 0 ? ` ${count(missing)} no longer there or in another state.` : ""
      }`,
    );
  };
  const ask = (action: Action<T>, of: readonly T[]) => {
    const ids = of.filter((entry) => action.applies(entry)).map(({ id }) => id);
    return (
      <button
        key={action.label}
        type="button"
        disabled={ids.length === 0}
        onClick={() => setAsked({ action, ids: [...new Set(ids)] })}
      >
        {action.label}
        {of === chosen && ids.length > 0 && ` (${count(ids.length)})`}
      </button>
    );
  };
  return (
    <div aria-busy={page.busy}>
      <div class="toolbar">
        <label>
          <input
            type="checkbox"
            disabled={entries.length === 0}
            checked={entries.length > 0 && chosen.length === entries.length}
            onChange={({ currentTarget: { checked } }) => {
              setSelected(new Set(checked ? entries.map(({ id }) => id) : []));
            }}
          />{" "}
          Select page
        </label>
        {actions.map((action) => ask(action, chosen))}
        {props.more?.(report)}
        <button type="button" onClick={page.reload}>Refresh</button>
      </div>
      {result && <Result result={result} />}
      {page.why && <p class="problem">Cannot read {mailbox}: {page.why}</p>}
      {entries.length === 0 && !page.why && (
        <p class="more" role="status">
          {page.busy
            ? page.searched > 0 ? `Searched ${several(page.searched, noun)}…` : "Loading…"
            : `No ${noun}s${Object.keys(route.filters).length > 0 ? " match" : ""}.`}
        </p>
      )}
      {entries.length > 0 && (
        <Table
          caption={`${noun[0]!.toUpperCase()}${noun.slice(1)}s of ${mailbox}, oldest first`}
          columns={["Select", "Message", ...columns]}
          class="list"
        >
          {entries.map((entry, i) => (
            <Fragment key={`${entry.id} ${i}`}>
              <tr role="row">
                <td role="cell" class="check">
                  <input
                    type="checkbox"
                    aria-label={`Select ${entry.id}`}
                    checked={selected.has(entry.id)}
                    onChange={() => setSelected(toggled(selected, entry.id))}
                  />
                </td>
                <RowHeader>
                  <button
                    type="button"
                    class="toggle"
                    aria-expanded={opened.has(entry.id)}
                    onClick={() => setOpened(toggled(opened, entry.id))}
                  >
                    <code>{entry.id}</code>
                  </button>
                </RowHeader>
                {props.cells(entry)}
              </tr>
              {opened.has(entry.id) && (
                <tr role="row" class="details">
                  <td role="cell" colSpan={columns.length + 2}>
                    <Details entry={entry}>{props.facts?.(entry)}</Details>
                    <div class="toolbar">
                      {actions.filter((action) => action.applies(entry))
                        .map((action) => ask(action, [entry]))}
                    </div>
                  </td>
                </tr>
              )}
            </Fragment>
          ))}
        </Table>
      )}
      <Pager page={page} filtered={Object.keys(route.filters).length > 0} total={props.total} />
      {asked && (
        <Confirm
          question={asked.action.question(`${several(asked.ids.length, noun)} of ${mailbox}`)}
          text={asked.action.warning}
          action={asked.action.label}
          onAnswer={(yes) => {
            setAsked(undefined);
            if (yes) act(asked.action, asked.ids);
          }}
        />
      )}
    </div>
  );
}

function Pager<T>(
  { page, filtered, total }: {
    readonly page: Page<T>;
    readonly filtered: boolean;
    readonly total: number | undefined;
  },
): JSX.Element | null {
  const { entries, skip, next } = page;
  if (entries.length === 0 || skip === 0 && next === undefined) return null;
  const last = skip + entries.length;
  return (
    <div class="toolbar pager" role="group" aria-label="Pages">
      <button
        type="button"
        disabled={skip === 0}
        onClick={() => page.turn("previous")}
      >
        Previous
      </button>
      <button
        type="button"
        disabled={next === undefined}
        onClick={() => page.turn("next")}
      >
        Next
      </button>
      <p>
        {filtered
          ? `${count(entries.length)} found`
          : `${count(skip + 1)} to ${count(last)}${
            total === undefined ? "" : ` of ${count(Math.max(total, last))}`
          }`}
      </p>
    </div>
  );
}

/** Shows the body, the headers and the other details of an entry. */
function Details(
  { entry, children }: { readonly entry: Entry; readonly children: ComponentChildren },
): JSX.Element {
  const { key, headers, enqueuedAt } = entry;
  return (
    <>
      <dl class="facts">
        <Fact name="Sent">{new Date(enqueuedAt).toLocaleString()}</Fact>
        {key !== undefined && <Fact name="Key">{key}</Fact>}
        {children}
      </dl>
      {headers && Object.keys(headers).length > 0 && (
        <dl class="headers" aria-label="Headers">
          {Object.entries(headers).map(([name, value]) => (
            <Fact key={name} name={name}>{value}</Fact>
          ))}
        </dl>
      )}
      <Text entry={entry} field="error" />
      <Text entry={entry} field="body" />
      <Text entry={entry} field="raw" />
      <Text entry={entry} field="checkpoint" />
    </>
  );
}

/** Shows a value as text, where the entry has it. */
function Text(
  { entry, field }: {
    readonly entry: Entry;
    readonly field: "body" | "raw" | "checkpoint" | "error";
  },
): JSX.Element | null {
  const values = entry as unknown as Readonly<Record<string, unknown>>;
  const value = values[`${field}Text`] ?? values[field];
  if (value === undefined) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const length = values[`${field}Length`];
  return (
    <figure class="text">
      <figcaption>
        {title(field)}
        {typeof length === "number" &&
          `: the first ${count(text.length)} of ${count(length)} characters`}
      </figcaption>
      <pre role="group" aria-label={title(field)} tabIndex={0}>{text}</pre>
    </figure>
  );
}
