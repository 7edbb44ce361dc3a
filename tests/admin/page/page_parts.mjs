// The parts of the page without a document, run by Node as they stand: plain scripts, read and evaluated together.

import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";

export function parts() {
  const folder = new URL("../../../trxds/admin/page/assets/", import.meta.url);
  const names = ["feed.js", "words.js", "programs.js", "call_stats.js", "model.js", "hosts.js", "diff.js", "route.js", "tree_layout.js", "chart_layout.js", "explain.js"];
  const context = createContext({ console, URLSearchParams });
  // Another realm has other prototypes, which deepStrictEqual takes for a difference: hence `plain`.
  runInContext(names.map((name) => readFileSync(new URL(name, folder), "utf-8")).join("\n"), context);
  context.FeedLink = runInContext("FeedLink", context); // a class is no property of its global object
  return context;
}

export function plain(value) {
  return JSON.parse(JSON.stringify(value));
}
