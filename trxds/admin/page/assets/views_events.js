// The views that show what happens, newest first: the talk with the control plane, and the picks.

function adsView(app) {
  const filter = filterBox("Filter the ADS log", app.repaint);
  const table = new Table({
    label: "ADS log, newest first",
    empty: "Nothing was said since this page was opened.",
    rowClass: (row) => (row.answer === "NACK" ? "marked" : ""),
    columns: [
      { key: "time", title: "Time", said: (row) => row.time, cell: (row) => mono(clockFine(row.time)) },
      {
        key: "direction",
        title: "Direction",
        said: (row) => row.direction,
        cell: (row) => el("span", { class: "unbroken" }, el("span", { "aria-hidden": "true" }, row.direction === "sent" ? "↑ " : "↓ "), row.direction),
      },
      { key: "type", title: "Type", cell: (row) => row.type },
      channelColumn(app),
      {
        key: "answer",
        title: "Answer",
        said: (row) => row.answer,
        cell: (row) => (row.answer ? chip(row.answer) : quiet(row.direction === "sent" ? "request" : "–")),
      },
      { key: "version", title: "Version", said: (row) => row.version, cell: (row) => mono(row.version || "–") },
      { key: "nonce", title: "Nonce", said: (row) => row.nonce, cell: (row) => mono(row.nonce || "–") },
      {
        key: "resources",
        title: "Resources, error",
        wide: true,
        said: (row) => row.resources.join(" ") + row.error,
        cell: (row) =>
          el(
            "span",
            { class: "two" },
            el("span", {}, inShort(row.resources)),
            ...(row.error ? [el("span", { class: "trouble" }, row.error)] : []),
          ),
      },
      { key: "server", title: "Server", said: (row) => row.server, cell: (row) => mono(row.server) },
    ],
  });
  return {
    filter,
    element: el("div", {}, viewHead("ADS log", "What client and control plane say to each other, newest first.", filter), table.element),
    paint: (model, channel) => table.paint(matching(newestFirst(clientEventsOf(model, model.ads, channel)), filter.value), app.isOneChannel()),
  };
}

function inShort(names) {
  if (names.length <= 6) return names.join(", ") || "–";
  return `${names.slice(0, 5).join(", ")} and ${count(names.length - 5)} more`;
}

// Events have no key; their place among all that came has.
const numbered = new WeakMap();
let eventsSeen = 0;

function newestFirst(events) {
  const rows = events.map((row) => {
    if (!numbered.has(row)) numbered.set(row, (eventsSeen += 1));
    return { key: numbered.get(row), row };
  });
  return rows.reverse();
}

function picksView(app) {
  const filter = filterBox("Filter picks", app.repaint);
  const form = explainForm(app);
  const table = new Table({
    label: "Picks, newest first",
    empty: "No call since this page was opened.",
    rowClass: (row) => (toneOfStatus(row.status) === "bad" ? "marked" : ""),
    columns: [
      { key: "time", title: "Time", said: (row) => row.time, cell: (row) => mono(clockFine(row.time)) },
      {
        key: "explain",
        title: "",
        label: "Explain",
        said: () => "",
        cell: (row) =>
          button("Explain", () => form.ask(row.channel, row.method, shownMetadata(row.metadata), row.session), {
            class: "small",
            "aria-label": `Explain ${row.method}${row.session ? ` of session ${row.session}` : ""}`,
          }),
      },
      channelColumn(app),
      { key: "method", title: "Method", said: (row) => row.method, cell: (row) => mono(row.method) },
      { key: "cluster", title: "Cluster", cell: (row) => row.cluster || "–" },
      { key: "host", title: "Host", said: (row) => row.host, cell: (row) => mono(row.host || "none") },
      { key: "why", title: "Why", said: (row) => `${row.why} ${row.session}`, cell: (row) => whyOf(row) },
      {
        key: "status",
        title: "Result",
        wide: true,
        said: (row) => row.status + row.message + row.why,
        cell: (row) => statusOf(row),
      },
    ],
  });
  const split = el("div", { class: "split" }, table.element, form.element);
  return {
    filter,
    element: el("div", {}, viewHead("Picks", "Where each call went, newest first; and where a call would go.", filter), split),
    paint(model, channel) {
      table.paint(matching(newestFirst(eventsOf(model.picks, channel)), filter.value).slice(0, 100), app.isOneChannel());
      form.paint(model);
    },
    explained: form.explained,
  };
}

// Values that the server keeps to itself are no good in a question.
function shownMetadata(metadata) {
  return Object.entries(metadata ?? {}).filter(([, value]) => value !== "…");
}

function statusOf(row) {
  const told = row.status === "" ? quiet("under way") : el("span", {}, chip(row.status, toneOfStatus(row.status)), quiet(` ${millis(row.seconds)}`));
  const [, reason] = whyAndReason(row);
  const note = row.message || (reason in REASONS ? "" : reason);
  return note ? el("span", { class: "two" }, told, quiet(note)) : told;
}

// What brought the call to its host, and for whom; what takes more than a few words is told with the result.
function whyOf(row) {
  if (row.why === "") return quiet(row.host === "" ? "no pick" : "–");
  const [why, reason] = whyAndReason(row);
  const words = reason in REASONS ? `${why}: ${reasonInWords(reason)}` : why;
  return row.session === null ? words : el("span", {}, `${words} `, quiet(row.session));
}

// `waits: no host of cluster cart is connected` is `waits`, and the rest.
function whyAndReason(row) {
  const [, why, reason = ""] = row.why.match(/^(.*?)(?:: (.*))?$/s);
  return [why, reason];
}
