import { replicaAnswers, workerAnswers } from "./_answer_targets.ts";
import { fuzz } from "./_fuzz.ts";

fuzz(replicaAnswers(), workerAnswers());
