import { type Command, Option } from "commander";

/** Adds an option that an environment variable may give too: `LASTCALL_` and its name. */
export type AddOption = (
  flags: string,
  text: string,
  parse?: (text: string) => unknown,
) => Option;

/** Adds such options to a command. */
export function envOptions(command: Command): AddOption {
  return (flags, text, parse) => {
    const option = new Option(flags, text);
    option.env(`LASTCALL_${option.name().replaceAll("-", "_").toUpperCase()}`);
    if (parse !== undefined) option.argParser(parse);
    command.addOption(option);
    return option;
  };
}
