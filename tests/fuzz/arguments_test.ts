import { chats } from "./_chat_targets.ts";
import { fuzz } from "./_fuzz.ts";
import {
  chaosOptions,
  cliArguments,
  queries,
  refusalBodies,
  routes,
  schedules,
  slotRecords,
} from "./_input_targets.ts";

fuzz(schedules, slotRecords, cliArguments, chaosOptions, routes);
fuzz(queries, chats(), refusalBodies);
