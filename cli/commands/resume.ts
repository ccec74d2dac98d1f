import type { Command } from "commander";
import { order, tokenOption } from "../_health_client.ts";
import { healthUrl } from "../_health_url.ts";
import { examples } from "../_help.ts";
import type { Io } from "../_io.ts";
import { printer } from "../_print.ts";

/** `lastcall resume`: lets a drained group take work again. */
export function addResume(program: Command, io: Io): void {
  program.command("resume")
    .description("Tell a drained group to take work again.")
    .argument("<url>", "where it answers probes: http://host:8080, host:8080, :8080")
    .addOption(tokenOption())
    .addHelpText(
      "after",
      examples(["LASTCALL_TOKEN=… lastcall resume localhost:8080", "after a drain"]),
    )
    .action(async (url: string, { token }: { readonly token?: string }, command: Command) => {
      const base = healthUrl(url);
      await order(base, "resume", token);
      printer(io, command).result({ state: "resumed" }, `${base} takes work again`);
    });
}
