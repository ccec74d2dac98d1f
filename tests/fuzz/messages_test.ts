import { fuzz } from "./_fuzz.ts";
import {
  bodies,
  checkpoints,
  envelopes,
  letters,
  lookalikes,
  storedBodies,
  storedCheckpoints,
  storedEnvelopes,
  traces,
} from "./_message_targets.ts";

fuzz(bodies, storedBodies(), envelopes, storedEnvelopes(), lookalikes, letters);
fuzz(checkpoints, storedCheckpoints, traces);
