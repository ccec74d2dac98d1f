// The view of all processes of the program: this one, its replicas, and the agents on the board.

import type { JSX } from "preact";
import type { ReplicaStatus, Status } from "../src/health/status.ts";
import { BASE } from "./client.ts";
import { age, count, duration, plain, rate, several } from "./format.ts";
import { Badge, Cell, RowHeader, Section, Table } from "./parts.tsx";
import { summarize, type Tone } from "./summary.ts";

const COLUMNS = [
  "Process",
  "State",
  "#Loops ready",
  "#In flight",
  "#Per second",
  "#Acknowledged",
  "#Uptime",
  "Version",
] as const;

/** Shows the processes in one table, and the agents. */
export function Replicas({ status }: { readonly status: Status }): JSX.Element {
  const replicas = status.replicas ?? [];
  const all: readonly ReplicaStatus[] = [
    { ...status, url: `${location.origin}${BASE}`, reachable: true },
    ...replicas,
  ];
  const sum = (of: (it: ReplicaStatus) => number | undefined) =>
    all.reduce((total, it) => total + (of(it) ?? 0), 0);
  return (
    <>
      <Section id="replicas" heading="Replicas">
        <Table caption={`${several(all.length, "process", "processes")}`} columns={COLUMNS}>
          {all.map((replica, i) => (
            <Row key={replica.url} replica={replica} at={status.at} own={i === 0} />
          ))}
        </Table>
        {all.length > 1 && (
          <p class="more">
            Together: {count(sum(({ totals }) => totals?.inFlight))} in flight,{" "}
            {rate(sum(({ totals }) => totals?.perSecond))} per second,{" "}
            {count(sum(({ totals }) => totals?.counts.acknowledged))} acknowledged
          </p>
        )}
        {status.replicas === undefined && (
          <p class="more">
            The options <code>health.replicas</code> and <code>health.board</code>{" "}
            add other processes.
          </p>
        )}
      </Section>
      <Agents status={status} />
    </>
  );
}

function Row(
  { replica, at, own }: {
    readonly replica: ReplicaStatus;
    readonly at: number;
    readonly own: boolean;
  },
): JSX.Element {
  const { url, reachable, error, process, totals } = replica;
  const state = stateOf(replica);
  return (
    <tr role="row" class={reachable ? "" : "away"}>
      <RowHeader>
        {own ? process?.name ?? location.host : <a href={url}>{process?.name ?? hostOf(url)}</a>}
        {process && (
          <small>
            {own ? "this process" : hostOf(url)}
            {process.pid !== undefined && `, pid ${process.pid}`}
          </small>
        )}
      </RowHeader>
      <Cell label="State">
        <Badge tone={state.tone}>{state.word}</Badge>
        {error && <span class="error">{error}</span>}
      </Cell>
      <Cell label="#Loops ready">{totals && `${count(totals.ready)}/${count(totals.loops)}`}</Cell>
      <Cell label="#In flight">{totals && count(totals.inFlight)}</Cell>
      <Cell label="#Per second">
        {totals?.perSecond === undefined ? undefined : rate(totals.perSecond)}
      </Cell>
      <Cell label="#Acknowledged">{totals && count(totals.counts.acknowledged)}</Cell>
      <Cell label="#Uptime">{process && age(process.startedAt, at)}</Cell>
      <Cell label="Version">
        {process && (process.version ?? `lastcall ${process.lastcall}`)}
      </Cell>
    </tr>
  );
}

function stateOf(replica: ReplicaStatus): { readonly tone: Tone; readonly word: string } {
  const { reachable, phase } = replica;
  if (!reachable) return { tone: "bad", word: "Unreachable" };
  if (phase === undefined) return { tone: "quiet", word: "Unknown" };
  const { paused = false, ready = false, live = false } = replica;
  const { tone, word } = summarize({ ...replica, phase, paused, ready, live });
  const { stop, end } = replica;
  if (end !== undefined) return { tone, word: `${word}, exit code ${end.exitCode}` };
  if (stop === undefined || !stop.timeoutMs) return { tone, word };
  return { tone, word: `${word}, ${duration(stop.remainingMs)} left` };
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

const AGENT_TONES: Readonly<Record<string, Tone>> = {
  running: "good",
  shutting_down: "busy",
  shutdown_complete: "quiet",
};

function Agents({ status }: { readonly status: Status }): JSX.Element | null {
  const { agents, at, boardReachable } = status;
  if (agents === undefined) return null;
  const left = status.leftOut?.agents ?? 0;
  return (
    <Section
      id="agents"
      heading="Agents"
      aside={boardReachable === false && <Badge tone="bad">board unreachable</Badge>}
    >
      {agents.length === 0
        ? <p class="more">No agents.</p>
        : (
          <Table caption="Agents on the board" columns={["Agent", "State", "#Changed"]}>
            {agents.map(({ agentId, status, updatedAt }) => (
              <tr role="row" key={agentId}>
                <RowHeader>{agentId}</RowHeader>
                <Cell label="State">
                  <Badge tone={AGENT_TONES[status] ?? "bad"}>{plain(status)}</Badge>
                </Cell>
                <Cell label="#Changed">
                  {updatedAt === undefined ? undefined : `${age(updatedAt, at)} ago`}
                </Cell>
              </tr>
            ))}
          </Table>
        )}
      {left > 0 && <p class="more">and {several(left, "more agent")}</p>}
    </Section>
  );
}
