import { fuzz } from "./_fuzz.ts";
import { mailboxUrls, passwords, serverUrls, urlParts } from "./_url_targets.ts";

fuzz(mailboxUrls, urlParts, serverUrls, passwords());
