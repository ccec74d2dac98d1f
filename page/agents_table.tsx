// The agents and peers of the board.

import type { JSX } from "preact";
import type { Status } from "../src/health/status.ts";
import type { Tone } from "./mood.ts";
import { Badge, Cell, RowHeader, Section, Table } from "./parts.tsx";
import { duration, plain, several } from "./words.ts";

const TONES: Readonly<Record<string, Tone>> = {
  running: "good",
  shutting_down: "busy",
  shutdown_complete: "quiet",
};

/** One row for each agent. */
export function AgentsTable({ status }: { readonly status: Status }): JSX.Element | null {
  const { agents, at, boardReachable } = status;
  if (agents === undefined) return null;
  const left = status.leftOut?.agents ?? 0;
  return (
    <Section
      id="agents"
      heading="Agents and peers"
      aside={boardReachable === false && <Badge tone="bad">the board is away</Badge>}
    >
      {agents.length === 0
        ? <p class="more">The board knows of none.</p>
        : (
          <Table caption="Agents as the board knows them" columns={["Agent", "State", "#Changed"]}>
            {agents.map(({ agentId, status, updatedAt }) => (
              <tr role="row" key={agentId}>
                <RowHeader>{agentId}</RowHeader>
                <Cell label="State">
                  <Badge tone={TONES[status] ?? "bad"}>{plain(status)}</Badge>
                </Cell>
                <Cell label="#Changed">
                  {updatedAt === undefined
                    ? undefined
                    : `${duration(Math.max(0, at - updatedAt))} ago`}
                </Cell>
              </tr>
            ))}
          </Table>
        )}
      {left > 0 && <p class="more">and {several(left, "more agent")}</p>}
    </Section>
  );
}
