// The version, which stands in several files and is one all the same; see versions.ts.
//
//   npm run set-version -- 0.2.0                     in all files, with today's date
//   npm run set-version -- 0.2.0 --date 2030-01-31
//   node tools/version.ts --check                    do all files tell the same?
//   node tools/version.ts --check --tag v0.2.0       and is it this tag's, and dated?
//   node tools/version.ts --notes                    what the changelog says of it

import process from "node:process";
import { parseArgs } from "node:util";
import { root } from "./runtimes.ts";
import { readChangelog, readVersion, setVersion, versionProblems } from "./versions.ts";

const USAGE = "Say a version, as 1.2.3, or --check, or --notes";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    check: { type: "boolean", default: false },
    notes: { type: "boolean", default: false },
    tag: { type: "string" },
    date: { type: "string", default: new Date().toISOString().slice(0, 10) },
  },
});
const [version, ...rest] = positionals;
const asked = [version !== undefined, values.check, values.notes].filter(Boolean).length;

try {
  if (asked !== 1 || rest.length > 0) throw new Error(USAGE);
  if (values.tag !== undefined && !values.check) throw new Error("--tag goes with --check alone");
  if (values.check) check();
  else if (values.notes) console.log(notes());
  else {
    setVersion(root, version!, values.date);
    console.log(
      `This is ${readVersion(root)} of ${values.date}; commit it, then tag it v${version}`,
    );
  }
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 2;
}

function check(): void {
  const problems = versionProblems(root, values.tag);
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
  else console.log(readVersion(root));
}

function notes(): string {
  const current = readVersion(root);
  const section = readChangelog(root).find((it) => it.version === current);
  if (section === undefined) throw new Error(`CHANGELOG.md has no section for ${current}`);
  return section.text;
}
