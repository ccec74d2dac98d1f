// Drain and resume, for whoever has the token.

import type { JSX, TargetedSubmitEvent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask } from "./access.ts";
import { Confirm, Result } from "./parts.tsx";

/** What the controls need to know. */
export interface ControlsProps {
  readonly drained: boolean;
  readonly stopping: boolean;
  readonly token: string | undefined;
  /** Keeps a token that is right; undefined forgets it. */
  readonly onToken: (token: string | undefined) => void;
}

/** The form for the token, or what it opens. */
export function Controls(props: ControlsProps): JSX.Element {
  const section = useRef<HTMLElement>(null);
  // Whoever works with the keyboard is not sent back to the top when a button makes room for another.
  const stay = () => section.current?.focus();
  const onToken = (token: string | undefined) => {
    props.onToken(token);
    stay();
  };
  return (
    <section ref={section} class="controls" aria-label="Controls" tabIndex={-1}>
      {props.token === undefined
        ? <TokenForm onToken={onToken} onCancel={stay} />
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
    const outcome = await ask("GET", "controls", token);
    setBusy(false);
    if (outcome.kind === "done") onToken(token);
    else if (outcome.kind === "refused") setProblem("This token is not the right one.");
    else setProblem(`The token could not be checked: ${outcome.why}.`);
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
  { drained, stopping, token, onToken }: ControlsProps & { readonly token: string },
): JSX.Element {
  const [asking, setAsking] = useState(false);
  const [result, setResult] = useState("");
  const act = async (path: "drain" | "resume", done: string) => {
    const outcome = await ask("POST", path, token);
    if (outcome.kind === "refused") onToken(undefined);
    else setResult(outcome.kind === "done" ? done : `That did not work: ${outcome.why}.`);
  };
  return (
    <>
      {!drained && (
        <button type="button" disabled={stopping} onClick={() => setAsking(true)}>Drain</button>
      )}
      {drained && (
        <button
          type="button"
          class="strong"
          disabled={stopping}
          onClick={() => act("resume", "It takes work again.")}
        >
          Resume
        </button>
      )}
      <button type="button" class="plain" onClick={() => onToken(undefined)}>Lock</button>
      {result && <Result text={result} />}
      {asking && (
        <Confirm
          question="Drain this process?"
          text="It takes no new work until somebody resumes it, and finishes what is in flight. Probes see it as not ready."
          action="Drain"
          onAnswer={(yes) => {
            setAsking(false);
            if (yes) act("drain", "It takes no new work from now on.");
          }}
        />
      )}
    </>
  );
}
