// The whole page, from what is known.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Status } from "../src/health/status.ts";
import { ask, storedToken, storeToken } from "./access.ts";
import { AgentsTable } from "./agents_table.tsx";
import { BASE } from "./connection.ts";
import { Header } from "./header.tsx";
import { LoopsTable } from "./loops_table.tsx";
import { DeadLetters, MailboxesTable } from "./mailboxes_table.tsx";
import { moodOf } from "./mood.ts";
import { Overview } from "./overview.tsx";
import { StopPanel } from "./stop_panel.tsx";

/** What is known. */
export interface Known {
  readonly status: Status | undefined;
  /** True while nothing is heard. */
  readonly lost: boolean;
  /** What was done a second, over the last minute. */
  readonly rates: readonly number[];
}

/** Everything on the page. */
export function App({ status, lost, rates }: Known): JSX.Element {
  const [token, onToken] = useToken();
  if (status === undefined) {
    return (
      <main>
        <h1>lastcall</h1>
        <p>{lost ? "There is no answer; trying again." : "Asking how it is doing…"}</p>
      </main>
    );
  }
  const mood = moodOf(status);
  const access = { token: status.controls ? token : undefined, onToken };
  return (
    <>
      <Header status={status} mood={mood} lost={lost} {...access} />
      {/* Changes with the phase alone, so that nothing else is read aloud. */}
      <p class="unseen" role="status">{mood.sentence}</p>
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
          For programs: <a href={`${BASE}status`}>status</a>,{" "}
          <a href={`${BASE}metrics`}>metrics</a>,{" "}
          <a href={`${BASE}health/ready?verbose`}>readiness</a>
        </p>
      </footer>
    </>
  );
}

/** The token of this tab, as long as the server finds it right. */
function useToken(): [string | undefined, (token: string | undefined) => void] {
  const [token, setToken] = useState<string | undefined>(undefined);
  const keep = (next: string | undefined) => {
    storeToken(next);
    setToken(next);
  };
  useEffect(() => {
    const stored = storedToken();
    if (stored === undefined) return;
    ask("GET", "controls", stored).then(({ kind }) => {
      if (kind === "done") setToken(stored);
      if (kind === "refused") storeToken(undefined);
    });
  }, []);
  return [token, keep];
}
