// Small pieces that many parts of the page are made of.

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { MARKS, type Tone } from "./mood.ts";

/** A state: a mark and a word, in a colour. */
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

/** A part of the page with a heading. */
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

/** A table. Its roles are said aloud, because narrow screens lay it out as cards. */
export function Table(
  { caption, columns, children }: {
    readonly caption: string;
    /** Those that begin with # hold numbers. */
    readonly columns: readonly string[];
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <table role="table">
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

/** What a row is about. */
export function RowHeader(
  { children }: { readonly children: ComponentChildren },
): JSX.Element {
  return <th role="rowheader" scope="row">{children}</th>;
}

/** A cell, with the heading of its column for narrow screens. */
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

/** Asks before something is done that others notice. Closed, it gives the focus back where it was. */
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
        <button type="button" autofocus onClick={() => dialog.current?.close()}>Cancel</button>
        <button type="button" class="strong" onClick={() => dialog.current?.close("yes")}>
          {action}
        </button>
      </div>
    </dialog>
  );
}

/** What came of an action: who pressed the button hears it next. */
export function Result({ text }: { readonly text: string }): JSX.Element {
  const element = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => element.current?.focus(), [text]);
  return <p ref={element} class="result" tabIndex={-1}>{text}</p>;
}
