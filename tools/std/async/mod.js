// Stands in for jsr:@std/async where JSR cannot be reached: the same functions, from npm.
// Only single files: the npm package's own async/mod.js does not load.
// @ts-self-types="./mod.d.ts"
export { abortable } from "deno-std/async/abortable.js";
export { deadline } from "deno-std/async/deadline.js";
export { delay } from "deno-std/async/delay.js";
