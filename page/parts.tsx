// Components that several parts of the page use.

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { MARKS, type Tone } from "./summary.ts";

/** Shows a state as a coloured mark and a word. */
export function Badge(
  { tone, children }: { readonly tone: Tone; readonly children: ComponentChildren },
): JSX.Element {
  return (
    <span class={`badge ${tone}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d={MARKS[tone]} />
      </svg>
      {children}
    </span>
  );
}

/** Shows a section with a heading. */
export function Section(
  { id, heading, aside, children }: {
    readonly id: string;
    readonly heading: string;
    readonly aside?: ComponentChildren;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <section id={id} aria-labelledby={`${id}-heading`}>
      <div class="heading">
        <h2 id={`${id}-heading`}>{heading}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

/** Shows a table. Roles are explicit, because narrow screens lay it out as cards. */
export function Table(
  { caption, columns, class: look, children }: {
    readonly caption: string;
    /** Columns of numbers begin with #. */
    readonly columns: readonly string[];
    readonly class?: string;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <table role="table" class={look}>
      <caption>{caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((column) => (
            <th
              key={column}
              role="columnheader"
              scope="col"
              class={column.startsWith("#") ? "number" : ""}
            >
              {column.replace("#", "")}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">{children}</tbody>
    </table>
  );
}

/** Shows the header cell of a row. */
export function RowHeader(
  { children }: { readonly children: ComponentChildren },
): JSX.Element {
  return <th role="rowheader" scope="row">{children}</th>;
}

/** Shows a cell. Narrow screens show its label. */
export function Cell(
  { label, tone, children }: {
    readonly label: string;
    readonly tone?: Tone | undefined;
    readonly children?: ComponentChildren;
  },
): JSX.Element {
  const number = label.startsWith("#") ? "number" : "";
  return (
    <td role="cell" data-label={label.replace("#", "")} class={`${number} ${tone ?? ""}`}>
      {children ?? <span class="none">–</span>}
    </td>
  );
}

/** Shows a confirmation dialog. When it closes, the browser restores the focus. */
export function Confirm(
  { question, text, action, onAnswer }: {
    readonly question: string;
    readonly text: string;
    readonly action: string;
    readonly onAnswer: (yes: boolean) => void;
  },
): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="question"
      onClose={() => onAnswer(dialog.current?.returnValue === "yes")}
    >
      <h2 id="question">{question}</h2>
      <p>{text}</p>
      <div class="buttons">
        <button type="button" autofocus onClick={() => dialog.current?.close()}>Back</button>
        <button type="button" class="strong" onClick={() => dialog.current?.close("yes")}>
          {action}
        </button>
      </div>
    </dialog>
  );
}

/** Shows the result of an action, and focuses it so that screen readers announce it. */
export function Result({ result }: { readonly result: { readonly text: string } }): JSX.Element {
  const element = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => element.current?.focus(), [result]);
  return <p ref={element} class="result" tabIndex={-1}>{result.text}</p>;
}

/** Shows one fact of a list of facts. */
export function Fact(
  { name, children }: { readonly name: string; readonly children: ComponentChildren },
): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Returns the set with this id added or removed. */
export function toggled(ids: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const next = new Set(ids);
  if (!next.delete(id)) next.add(id);
  return next;
}
