import { fuzz } from "./_fuzz.ts";
import { toolCalls } from "./_mcp_targets.ts";

fuzz(toolCalls());
