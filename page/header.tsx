// Who it is, how it is doing, and whether that is still true.

import type { JSX } from "preact";
import type { Status } from "../src/health/status.ts";
import { Controls, type ControlsProps } from "./controls.tsx";
import type { Mood } from "./mood.ts";
import { Badge } from "./parts.tsx";

/** The top of the page. */
export function Header(
  { status, mood, lost, token, onToken }: {
    readonly status: Status;
    readonly mood: Mood;
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
        <Badge tone={mood.tone}>{mood.word}</Badge>
        <p>{mood.sentence}</p>
      </div>
      {status.controls && (
        <Controls
          drained={status.drained}
          stopping={status.phase !== "running"}
          token={token}
          onToken={onToken}
        />
      )}
      <p class={lost ? "connection lost" : "connection"}>
        {lost
          ? `Connection lost. This is how it was at ${time}; trying again.`
          : `Live, as of ${time}`}
      </p>
    </header>
  );
}
