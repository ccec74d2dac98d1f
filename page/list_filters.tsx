// What is above a list of messages or dead letters: the choice of a mailbox and the filters.

import type { ComponentChildren, JSX, TargetedEvent } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { MailboxStatus } from "../src/health/status.ts";
import { count } from "./format.ts";
import { hashOf, type Route } from "./route.ts";

/** Shows the choice of a mailbox and the filters. Each change goes into the address. */
export function Filters(
  { route, mailboxes, countOf, children }: {
    readonly route: Route & { readonly mailbox: string };
    readonly mailboxes: readonly MailboxStatus[];
    readonly countOf: (mailbox: MailboxStatus) => number | undefined;
    /** Filters besides the text. They submit the form by {@linkcode submit}. */
    readonly children: ComponentChildren;
  },
): JSX.Element {
  const { view, mailbox, filters: { find = "" } } = route;
  const [text, setText] = useState(find);
  useEffect(() => setText(find), [find]);
  const names = mailboxes.map(({ name }) => name);
  const apply = (event: TargetedEvent<HTMLFormElement>) => {
    event.preventDefault();
    const { mailbox = "", ...filters } = Object.fromEntries(new FormData(event.currentTarget));
    location.hash = hashOf({
      view,
      mailbox: String(mailbox),
      filters: filters as Record<string, string>,
    });
  };
  return (
    <form class="toolbar filters" onSubmit={apply}>
      <label>
        Mailbox{" "}
        <select name="mailbox" value={mailbox} onChange={submit}>
          {!names.includes(mailbox) && <option key="" value={mailbox}>{mailbox}</option>}
          {mailboxes.map((it) => (
            <option key={it.name} value={it.name}>
              {it.name} ({countOf(it) === undefined ? "–" : count(countOf(it)!)})
            </option>
          ))}
        </select>
      </label>
      {children}
      <label class="find">
        <span class="unseen">Find by id, key, headers or body</span>
        <input
          type="search"
          name="find"
          placeholder="Id, key, headers or body"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <button type="submit">Find</button>
    </form>
  );
}

/** Submits the form of a changed field. */
export function submit({ currentTarget }: TargetedEvent<HTMLSelectElement>): void {
  currentTarget.form?.requestSubmit();
}

/** Says why there is no list: no token configured, or not entered yet. */
export function Locked(
  { controls, what }: { readonly controls: boolean; readonly what: string },
): JSX.Element {
  return (
    <p class="more">
      {controls
        ? `Unlock the controls to ${what}.`
        : `This process has no token. Set health.token to ${what}.`}
    </p>
  );
}
