// The pure parts of the page, run by Node as they stand: they are plain scripts, so they are read and evaluated together.

import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";

export function parts() {
  const folder = new URL("../../../trxds/admin/page/assets/", import.meta.url);
  const names = ["words.js", "programs.js", "call_stats.js", "model.js", "hosts.js", "diff.js", "route.js", "tree_layout.js", "chart_layout.js", "explain.js"];
  const context = createContext({ console, URLSearchParams });
  // Another realm has other prototypes, which deepStrictEqual takes for a difference: hence `plain`.
  runInContext(names.map((name) => readFileSync(new URL(name, folder), "utf-8")).join("\n"), context);
  return context;
}

export function plain(value) {
  return JSON.parse(JSON.stringify(value));
}
