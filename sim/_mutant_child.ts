// Explores one planted bug, and prints the result as a line of JSON. Arguments: its name, the first seed, and
// the number of seeds.

import process from "node:process";
import { loadMutated } from "./mutation.ts";
import { MUTANTS } from "./mutants.ts";

Error.stackTraceLimit = 0; // many calls fail, and each error would collect its stack

const [name, first, count] = process.argv.slice(2);
const mutant = MUTANTS.find((it) => it.name === name)!;
const { explore } = await loadMutated(mutant);
const { seeds, failure } = await explore(Number(first), Number(count));
console.log(JSON.stringify({ seeds, rule: failure?.rule }));
