import { type ChaosSite, serverSite } from "../../../chaos/sites.ts";
import { nats } from "../_servers.ts";

export const site: ChaosSite = {
  ...serverSite(nats),
  slow:
    "messages that are lost with a connection come back after 30 s: npm run chaos -- --engine nats",
};
