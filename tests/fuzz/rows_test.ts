import { fuzz } from "./_fuzz.ts";
import { kvIds, kvMessages, kvQueues, kvRecords } from "./_kv_targets.ts";
import {
  arrays,
  natsEntries,
  natsNotes,
  notifications,
  redisRecords,
  sqsMessages,
  storedNats,
  storedRedisRecords,
} from "./_row_targets.ts";

fuzz(redisRecords, storedRedisRecords, natsEntries, storedNats, natsNotes, sqsMessages);
fuzz(kvMessages, kvRecords(), kvIds, kvQueues, notifications, arrays);
