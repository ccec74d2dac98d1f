// The buttons to pause and resume, which need the token.

import type { JSX, TargetedSubmitEvent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Access, send } from "./client.ts";
import { Confirm, Result } from "./parts.tsx";

/** Properties of {@linkcode Controls}. */
export interface ControlsProps extends Access {
  readonly paused: boolean;
  readonly stopping: boolean;
}

/** Shows the form for the token, or with a token the buttons. */
export function Controls(props: ControlsProps): JSX.Element {
  const section = useRef<HTMLElement>(null);
  // Keeps the keyboard focus here when a focused button is replaced by another.
  const keepFocus = () => section.current?.focus();
  const onToken = (token: string | undefined) => {
    props.onToken(token);
    keepFocus();
  };
  return (
    <section ref={section} class="controls" aria-label="Controls" tabIndex={-1}>
      {props.token === undefined
        ? <TokenForm onToken={onToken} onCancel={keepFocus} />
        : <Buttons {...props} onToken={onToken} token={props.token} />}
    </section>
  );
}

function TokenForm(
  { onToken, onCancel }: Pick<ControlsProps, "onToken"> & { readonly onCancel: () => void },
): JSX.Element {
  const [open, setOpen] = useState(false);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), [open, problem]);
  const cancel = () => {
    setOpen(false);
    onCancel();
  };
  const check = async (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const token = String(new FormData(event.currentTarget).get("token")).trim();
    setBusy(true);
    const outcome = await send("GET", "controls", token);
    setBusy(false);
    if (outcome.kind === "done") onToken(token);
    else if (outcome.kind === "refused") setProblem("Wrong token.");
    else setProblem(`Cannot check the token: ${outcome.why}.`);
  };
  if (!open) return <button type="button" onClick={() => setOpen(true)}>Unlock controls</button>;
  return (
    <form onSubmit={check}>
      <label for="token">Token</label>
      <input
        ref={input}
        id="token"
        name="token"
        type="password"
        required
        autocomplete="off"
        spellcheck={false}
        aria-invalid={problem !== ""}
        aria-describedby="token-problem"
      />
      <button type="submit" class="strong" disabled={busy}>Unlock</button>
      <button type="button" onClick={cancel}>Cancel</button>
      <p id="token-problem" class="problem" aria-live="polite">{problem}</p>
    </form>
  );
}

function Buttons(
  { paused, stopping, token, onToken }: ControlsProps & { readonly token: string },
): JSX.Element {
  const [asking, setAsking] = useState(false);
  const [result, setResult] = useState<{ readonly text: string }>();
  const act = async (path: "pause" | "resume", done: string) => {
    const outcome = await send("POST", path, token);
    if (outcome.kind === "refused") onToken(undefined);
    else setResult({ text: outcome.kind === "done" ? done : `Failed: ${outcome.why}` });
  };
  return (
    <>
      {!paused && (
        <button type="button" disabled={stopping} onClick={() => setAsking(true)}>Pause</button>
      )}
      {paused && (
        <button
          type="button"
          class="strong"
          disabled={stopping}
          onClick={() => act("resume", "The group takes work again.")}
        >
          Resume
        </button>
      )}
      <button type="button" class="plain" onClick={() => onToken(undefined)}>Lock</button>
      {result && <Result result={result} />}
      {asking && (
        <Confirm
          question="Pause this group?"
          text="The group finishes the work in flight and takes no new work until it is resumed. Readiness probes fail until then."
          action="Pause"
          onAnswer={(yes) => {
            setAsking(false);
            if (yes) act("pause", "The group takes no new work.");
          }}
        />
      )}
    </>
  );
}
