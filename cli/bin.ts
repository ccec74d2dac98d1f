#!/usr/bin/env node
import process from "node:process";
import { main } from "./main.ts";

process.exit(await main(process.argv.slice(2)));
