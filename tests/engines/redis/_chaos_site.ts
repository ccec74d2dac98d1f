import { type ChaosSite, serverSite } from "../../../chaos/sites.ts";
import { redis } from "../_servers.ts";

export const site: ChaosSite = serverSite(redis);
