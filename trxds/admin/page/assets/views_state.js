// The views that show what is: sessions, endpoints, connections.

function sessionsView(app) {
  const filter = filterBox("Filter sessions", app.repaint);
  let hosts = new Map();
  const healthOf = (row) => hosts.get(`${row.channel}\n${row.host}`);
  const table = new Table({
    label: "Sessions",
    empty: "No session is open.",
    order: { column: "session", down: false },
    rowClass: (row) => (row.last_move && app.now() - row.last_move.time < 10 ? "fresh" : ""),
    columns: [
      { key: "session", title: "Session", said: (row, key) => `${key} ${app.hueOf(row.channel)}`, cell: (row, key) => channelTag(app, row.channel, key), sort: (row, key) => key },
      { key: "cluster", title: "Cluster", cell: (row) => row.cluster || "–", sort: (row) => row.cluster },
      { key: "host", title: "Host", said: (row) => row.host, cell: (row) => mono(row.host || "none yet"), sort: (row) => row.host },
      {
        key: "health",
        title: "Host is",
        said: (row) => hostWord(healthOf(row)),
        cell: (row) => (row.host ? chip(hostWord(healthOf(row))) : "–"),
        sort: (row) => hostWord(healthOf(row)),
      },
      { key: "since", title: "Age", numeric: true, cell: (row) => age(app.now() - row.since), sort: (row) => -row.since },
      { key: "calls", title: "Calls", numeric: true, cell: (row) => count(row.calls), sort: (row) => row.calls },
      {
        key: "rate",
        title: "Traffic",
        numeric: true,
        cell: (row, key) => perSecond(rateOf(app.model, "sessions", key)),
        sort: (row, key) => rateOf(app.model, "sessions", key),
      },
      { key: "moves", title: "Moves", numeric: true, cell: (row) => count(row.moves), sort: (row) => row.moves },
      {
        key: "move",
        title: "Last move",
        wide: true,
        said: (row) => JSON.stringify([row.last_move, row.last_move && ago(app.now() - row.last_move.time)]),
        cell: (row) => lastMove(row.last_move, app.now()),
        sort: (row) => row.last_move?.time ?? 0,
      },
    ],
  });
  return {
    filter,
    element: el("div", {}, viewHead("Sessions", "Which host each session is on, and why it last moved.", filter), table.element),
    paint(model, channel) {
      hosts = new Map(rowsOf(model, "endpoints", channel).map(({ row }) => [`${row.channel}\n${row.address}`, row]));
      table.paint(matching(rowsOf(model, "sessions", channel), filter.value), app.isOneChannel());
    },
  };
}

// Of a host, what matters to a session: is it going, gone, or fit?
function hostWord(endpoint) {
  if (endpoint === undefined) return "removed";
  if (endpoint.ejected) return "ejected";
  if (endpoint.health === "DRAINING") return "DRAINING";
  return endpoint.state ?? "IDLE";
}

function lastMove(move, now) {
  if (!move) return quiet("never");
  const way = el("span", { class: "mono" }, `${move.from || "?"} → ${move.to}`);
  return el("span", { class: "two" }, el("span", {}, quiet(`${ago(now - move.time)} `), way), quiet([reasonInWords(move.reason), move.change].filter(Boolean).join(", ")));
}

function endpointsView(app) {
  const filter = filterBox("Filter endpoints", app.repaint);
  const board = el("div", { class: "cards" });
  const boardPart = el("section", { "aria-label": "Drain board" }, el("h3", {}, "Drain board"), board);
  let most = 1;
  let totals = new Map();
  const table = new Table({
    label: "Endpoints",
    empty: "No endpoint is known.",
    order: { column: "cluster", down: false },
    rowClass: (row) => (row.health === "DRAINING" || row.ejected ? "marked" : ""),
    columns: [
      channelColumn(app),
      { key: "cluster", title: "Cluster", cell: (row) => row.cluster, sort: (row) => `${row.cluster} ${row.channel} ${row.priority} ${row.locality} ${row.address}` },
      { key: "priority", title: "Priority", numeric: true, cell: (row) => String(row.priority), sort: (row) => row.priority },
      { key: "locality", title: "Locality", cell: (row) => row.locality || "–", sort: (row) => row.locality },
      { key: "address", title: "Address", said: (row) => row.address, cell: (row) => mono(row.address), sort: (row) => row.address },
      {
        key: "health",
        title: "Control plane says",
        said: (row) => `${row.health} ${row.ejected}`,
        cell: (row) => el("span", { class: "chips" }, chip(row.health), ...(row.ejected ? [chip("ejected")] : [])),
        sort: (row) => row.health,
      },
      {
        key: "state",
        title: "Connection",
        said: (row) => row.state ?? "",
        cell: (row) => (row.state === null ? quiet("not wanted yet") : chip(row.state)),
        sort: (row) => row.state ?? "",
      },
      { key: "weight", title: "Weight", numeric: true, cell: (row) => count(row.weight), sort: (row) => row.weight },
      {
        key: "sessions",
        title: "Sessions",
        said: (row) => `${row.sessions} ${most}`,
        cell: (row) => barred(row.sessions, row.sessions / most, row.health === "DRAINING" ? "warn" : "calm"),
        sort: (row) => row.sessions,
      },
      {
        key: "share",
        title: "Share",
        numeric: true,
        cell: (row) => (totals.has(clusterKey(row)) ? percent(row.sessions / totals.get(clusterKey(row))) : "–"),
        sort: (row) => row.sessions / (totals.get(clusterKey(row)) ?? 1),
      },
    ],
  });
  return {
    filter,
    element: el(
      "div",
      {},
      viewHead("Endpoints", "Who could serve, by cluster, and which hosts are being emptied.", filter),
      boardPart,
      table.element,
    ),
    paint(model, channel, now) {
      const drained = drainedHosts(model, channel);
      boardPart.hidden = drained.length === 0;
      board.replaceChildren(...drained.map((host) => drainCard(host, now)));
      const rows = rowsOf(model, "endpoints", channel);
      most = Math.max(1, ...rows.map(({ row }) => row.sessions));
      totals = sessionsByCluster(rows);
      table.paint(matching(rows, filter.value), app.isOneChannel());
    },
  };
}

function clusterKey(row) {
  return `${row.channel}\n${row.cluster}`;
}

// How many sessions each cluster has, of those that have any.
function sessionsByCluster(rows) {
  const totals = new Map();
  for (const { row } of rows)
    if (row.sessions) totals.set(clusterKey(row), (totals.get(clusterKey(row)) ?? 0) + row.sessions);
  return totals;
}

// One host, in however many clusters of however many channels it drains.
function drainCard({ address, channels, clusters, localities, since, gone, most, left }, now) {
  const meter = barred(left, most === 0 ? 0 : left / most, "warn");
  const word = gone !== null ? "removed" : left === 0 ? "empty" : "DRAINING";
  return el(
    "article",
    { class: "card", "aria-label": address },
    el("p", { class: "cardhead" }, mono(address), chip(word, { removed: "calm", empty: "good", DRAINING: "warn" }[word])),
    el("p", { class: "quiet" }, `${[...clusters].join(", ")}; ${[...localities].join(", ") || "no locality"}; for ${age((gone ?? now) - since)}`),
    ...(channels.size > 1 ? [el("p", { class: "quiet" }, `in ${plural(channels.size, "channel")}: ${[...channels].join(", ")}`)] : []),
    el("p", {}, meter, quiet(` of ${plural(most, "session")} left`)),
  );
}

function connectionsView(app) {
  const filter = filterBox("Filter connections", app.repaint);
  const kinds = { data: "host", ads: "control plane", lrs: "load reports" };
  const table = new Table({
    label: "Connections",
    empty: "Nothing is connected.",
    order: { column: "kind", down: false },
    rowClass: (row) => (row.state === "DRAINING" ? "marked" : ""),
    columns: [
      { key: "kind", title: "To", cell: (row) => kinds[row.kind] ?? row.kind, sort: (row) => `${kinds[row.kind] ?? row.kind} ${row.address}` },
      channelColumn(app),
      { key: "address", title: "Address", said: (row) => row.address, cell: (row) => mono(row.address), sort: (row) => row.address },
      { key: "state", title: "State", said: (row) => row.state, cell: (row) => chip(row.state), sort: (row) => row.state },
      { key: "since", title: "Age", numeric: true, cell: (row) => age(app.now() - row.since), sort: (row) => -row.since },
      { key: "streams", title: "Open streams", numeric: true, cell: (row) => count(row.streams), sort: (row) => row.streams },
      { key: "calls", title: "Calls", numeric: true, cell: (row) => count(row.calls), sort: (row) => row.calls },
      {
        key: "rate",
        title: "Traffic",
        numeric: true,
        cell: (row, key) => perSecond(rateOf(app.model, "connections", key)),
        sort: (row, key) => rateOf(app.model, "connections", key),
      },
    ],
  });
  return {
    filter,
    element: el("div", {}, viewHead("Connections", "Each transport, to hosts and to control planes.", filter), table.element),
    paint: (model, channel) => table.paint(matching(rowsOf(model, "connections", channel), filter.value), app.isOneChannel()),
  };
}
