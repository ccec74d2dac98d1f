import { fuzz } from "./_fuzz.ts";
import {
  arrays,
  kvIds,
  kvMessages,
  natsEntries,
  natsNotes,
  notifications,
  redisRecords,
  sqsMessages,
  storedNats,
  storedRedisRecords,
} from "./_row_targets.ts";

fuzz(redisRecords, storedRedisRecords, natsEntries, storedNats, natsNotes, sqsMessages);
fuzz(kvMessages, kvIds, notifications, arrays);
