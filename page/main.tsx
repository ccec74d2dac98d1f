// The live page: receives the status of the group and renders it.

import { type JSX, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Status } from "../src/health/status.ts";
import { AgentsTable } from "./agents_table.tsx";
import { BASE, send, storedToken, storeToken, subscribe } from "./client.ts";
import { Controls, type ControlsProps } from "./controls.tsx";
import { LoopsTable } from "./loops_table.tsx";
import { DeadLetters, MailboxesTable } from "./mailboxes_table.tsx";
import { Overview } from "./overview.tsx";
import { Badge } from "./parts.tsx";
import { StopPanel } from "./stop_panel.tsx";
import { showInTab, summarize, type Summary } from "./summary.ts";

/** The rates of one minute, at one event a second. */
const MAX_RATES = 60;

/** The state of the page. */
interface PageState {
  readonly status: Status | undefined;
  /** True while no events arrive. */
  readonly lost: boolean;
  /** Messages acknowledged per second, over the last minute. */
  readonly rates: readonly number[];
}

function App({ status, lost, rates }: PageState): JSX.Element {
  const [token, onToken] = useToken();
  if (status === undefined) {
    return (
      <main>
        <h1>lastcall</h1>
        <p>{lost ? "No answer. Retrying…" : "Loading…"}</p>
      </main>
    );
  }
  const summary = summarize(status);
  const access = { token: status.controls ? token : undefined, onToken };
  return (
    <>
      <Header status={status} summary={summary} lost={lost} {...access} />
      {/* Changes only with the state, so screen readers announce nothing else. */}
      <p class="unseen" role="status">{summary.sentence}</p>
      <main class={lost ? "old" : ""}>
        <StopPanel status={status} />
        <Overview status={status} rates={rates} />
        <LoopsTable status={status} />
        <MailboxesTable status={status} />
        <AgentsTable status={status} />
        <DeadLetters status={status} {...access} />
      </main>
      <footer>
        <p>
          Machine-readable: <a href={`${BASE}status`}>status</a>,{" "}
          <a href={`${BASE}metrics`}>metrics</a>,{" "}
          <a href={`${BASE}health/ready?verbose`}>readiness</a>
        </p>
      </footer>
    </>
  );
}

/** Returns the token of this tab, once the server has accepted it, and its setter. */
function useToken(): [string | undefined, (token: string | undefined) => void] {
  const [token, setToken] = useState<string | undefined>(undefined);
  const setAndStore = (next: string | undefined) => {
    storeToken(next);
    setToken(next);
  };
  useEffect(() => {
    const stored = storedToken();
    if (stored === undefined) return;
    send("GET", "controls", stored).then(({ kind }) => {
      if (kind === "done") setToken(stored);
      if (kind === "refused") storeToken(undefined);
    });
  }, []);
  return [token, setAndStore];
}

function Header(
  { status, summary, lost, token, onToken }: {
    readonly status: Status;
    readonly summary: Summary;
    readonly lost: boolean;
  } & Pick<ControlsProps, "token" | "onToken">,
): JSX.Element {
  const time = new Date(status.at).toLocaleTimeString();
  return (
    <header>
      <div class="title">
        <h1>lastcall</h1>
        <p class="place">
          {location.host}
          {status.runtime && ` · ${status.runtime}`}
        </p>
      </div>
      <div class="state">
        <Badge tone={summary.tone}>{summary.word}</Badge>
        <p>{summary.sentence}</p>
      </div>
      {status.controls && (
        <Controls
          paused={status.paused}
          stopping={status.phase !== "running"}
          token={token}
          onToken={onToken}
        />
      )}
      <p class={lost ? "connection lost" : "connection"}>
        {lost
          ? `Connection lost. Last update at ${time}. Retrying…`
          : `Live. Last update at ${time}.`}
      </p>
    </header>
  );
}

let state: PageState = { status: undefined, lost: false, rates: [] };

function update(change: Partial<PageState>): void {
  state = { ...state, ...change };
  render(<App {...state} />, document.getElementById("app")!);
}

update({});
subscribe({
  onStatus(status) {
    const { perSecond } = status.totals;
    const rates = perSecond === undefined ? state.rates : [...state.rates, perSecond];
    update({ status, rates: rates.slice(-MAX_RATES) });
    showInTab(summarize(status), status.totals.inFlight);
  },
  onLost(lost) {
    if (lost !== state.lost) update({ lost });
  },
});
