// Explores one mutant, and prints what was found as a line of JSON: node sim/_mutant_child.ts <name> <seed> <seeds>

import process from "node:process";
import { loadMutated } from "./_mutation.ts";
import { MUTANTS } from "./mutants.ts";

const [name, first, count] = process.argv.slice(2);
const mutant = MUTANTS.find((it) => it.name === name)!;
const { explore } = await loadMutated(mutant);
const { seeds, failure } = await explore(Number(first), Number(count));
const rule = failure?.result.violation?.rule;
console.log(JSON.stringify({ name, seeds, rule, seed: failure?.seed }));
