// The live page: receives the status of the group and renders it.

import { type JSX, render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Status } from "../src/health/status.ts";
import { Charts, useHistory } from "./charts.tsx";
import { type Access, BASE, send, storedToken, storeToken, subscribe } from "./client.ts";
import { Controls } from "./controls.tsx";
import { DeadLetters } from "./dead_letters.tsx";
import { age, clockTime, count } from "./format.ts";
import { LoopsTable } from "./loops_table.tsx";
import { MailboxesTable } from "./mailboxes_table.tsx";
import { Messages } from "./messages.tsx";
import { Overview } from "./overview.tsx";
import { Badge, Fact } from "./parts.tsx";
import { Replicas } from "./replicas.tsx";
import { hashOf, useRoute, type View, VIEWS } from "./route.ts";
import { StopPanel } from "./stop_panel.tsx";
import { showInTab, summarize, type Summary } from "./summary.ts";

/** The state of the page. */
interface PageState {
  readonly status: Status | undefined;
  /** True while no events arrive. */
  readonly lost: boolean;
}

function App({ status, lost }: PageState): JSX.Element {
  const [token, onToken] = useToken();
  const history = useHistory(lost || status === undefined);
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    // The link that was followed may be gone with its view.
    if (!first.current && document.activeElement === document.body) main.current?.focus();
    first.current = false;
  }, [route.view]);
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
      <Navigation status={status} view={route.view} />
      {/* Changes only with the state, so screen readers announce nothing else. */}
      <p class="unseen" role="status" id="state">{summary.sentence}</p>
      <main ref={main} tabIndex={-1} class={lost ? "old" : ""} aria-label={VIEWS[route.view]}>
        <StopPanel status={status} short={route.view !== "overview"} />
        {route.view === "messages" && <Messages status={status} route={route} {...access} />}
        {route.view === "dead-letters" && <DeadLetters status={status} route={route} {...access} />}
        {route.view === "replicas" && <Replicas status={status} />}
        {route.view === "overview" && (
          <>
            <Overview status={status} history={history} />
            <Charts status={status} history={history} />
            <MailboxesTable status={status} history={history} />
            <LoopsTable status={status} />
          </>
        )}
      </main>
      <footer>
        <p>
          Machine-readable: <a href={`${BASE}status`}>status</a>,{" "}
          <a href={`${BASE}history`}>history</a>, <a href={`${BASE}metrics`}>metrics</a>,{" "}
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
  { status, summary, lost, token, onToken }: Access & {
    readonly status: Status;
    readonly summary: Summary;
    readonly lost: boolean;
  },
): JSX.Element {
  const { process, runtime, at, phase } = status;
  return (
    <header>
      <div class="state">
        <h1>{process?.name ?? location.host}</h1>
        <Badge tone={summary.tone}>{summary.word}</Badge>
        <p>{summary.sentence}</p>
      </div>
      {status.controls && (
        <Controls
          paused={status.paused}
          stopping={phase !== "running"}
          token={token}
          onToken={onToken}
        />
      )}
      <dl class="facts" aria-label="Process">
        {process?.version !== undefined && <Fact name="Version">{process.version}</Fact>}
        {process && <Fact name="Uptime">{age(process.startedAt, at)}</Fact>}
        {process?.pid !== undefined && <Fact name="Pid">{process.pid}</Fact>}
        {runtime && <Fact name="Runtime">{runtime}</Fact>}
        {process && <Fact name="lastcall">{process.lastcall}</Fact>}
      </dl>
      <p class={lost ? "connection lost" : "connection"}>
        {connection(phase === "stopped", lost, clockTime(at))}
      </p>
    </header>
  );
}

function connection(stopped: boolean, lost: boolean, time: string): string {
  if (!lost) return `Live. Last update at ${time}.`;
  return stopped
    ? `The process has ended. Last update at ${time}. Waiting for the next process…`
    : `Connection lost. Last update at ${time}. Retrying…`;
}

/** Shows the links to the views, with the counts that need attention. */
function Navigation(
  { status, view }: { readonly status: Status; readonly view: View },
): JSX.Element {
  const { mailboxes, replicas = [] } = status;
  const away = replicas.filter(({ reachable }) => !reachable).length;
  const notes: Readonly<Record<View, string>> = {
    overview: "",
    messages: "",
    "dead-letters": count(mailboxes.reduce((sum, { dead = 0 }) => sum + dead, 0)),
    replicas: `${count(1 + replicas.length)}${away > 0 ? `, ${count(away)} unreachable` : ""}`,
  };
  return (
    <nav aria-label="Views">
      {(Object.keys(VIEWS) as View[]).map((it) => (
        <a
          key={it}
          href={hashOf({ view: it })}
          aria-current={it === view ? "page" : undefined}
        >
          {VIEWS[it]} {notes[it] && notes[it] !== "0" && <small>{notes[it]}</small>}
        </a>
      ))}
    </nav>
  );
}

let state: PageState = { status: undefined, lost: false };

function update(change: Partial<PageState>): void {
  state = { ...state, ...change };
  render(<App {...state} />, document.getElementById("app")!);
}

update({});
subscribe({
  onStatus(status) {
    update({ status });
    showInTab(summarize(status), status);
  },
  onLost(lost) {
    if (lost !== state.lost) update({ lost });
  },
});
