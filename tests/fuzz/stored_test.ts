import { fuzz } from "./_fuzz.ts";
import { answers, controls, loops, redrives } from "./_stored_targets.ts";

fuzz(loops(), redrives, answers, controls());
