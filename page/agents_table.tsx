// The table of agents.

import type { JSX } from "preact";
import type { Status } from "../src/health/status.ts";
import type { Tone } from "./summary.ts";
import { Badge, Cell, RowHeader, Section, Table } from "./parts.tsx";
import { duration, plain, several } from "./format.ts";

const TONES: Readonly<Record<string, Tone>> = {
  running: "good",
  shutting_down: "busy",
  shutdown_complete: "quiet",
};

/** Shows the agents of the board. */
export function AgentsTable({ status }: { readonly status: Status }): JSX.Element | null {
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
