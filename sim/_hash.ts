// Prints what seeds do as a line of JSON, on any runtime. Arguments: the first seed, and the number of seeds.

import process from "node:process";
import { explore } from "./explore.ts";

const [first, count] = process.argv.slice(2).map(Number);
const { hash, steps } = await explore(first!, count!);
console.log(JSON.stringify({ hash, steps }));
