// The views that show what is: sessions, endpoints, resources, connections.

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
      { key: "session", title: "Session", cell: (row, key) => key, sort: (row, key) => key },
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
    element: el("div", {}, viewHead("Sessions", "Which host each session is on, and why it last moved.", filter), table.element),
    paint(model, channel) {
      hosts = new Map(rowsOf(model, "endpoints", channel).map(({ row }) => [`${row.channel}\n${row.address}`, row]));
      table.paint(matching(rowsOf(model, "sessions", channel), filter.value));
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
      { key: "cluster", title: "Cluster", cell: (row) => row.cluster, sort: (row) => `${row.cluster} ${row.priority} ${row.locality} ${row.address}` },
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
    element: el(
      "div",
      {},
      viewHead("Endpoints", "Who could serve, and which hosts are being emptied.", filter),
      boardPart,
      table.element,
    ),
    paint(model, channel, now) {
      const drains = [...model.drains].filter(([, { row }]) => !channel || row.channel === channel);
      boardPart.hidden = drains.length === 0;
      board.replaceChildren(...drains.map(([key, drain]) => drainCard(key, drain, now)));
      const rows = rowsOf(model, "endpoints", channel);
      most = Math.max(1, ...rows.map(({ row }) => row.sessions));
      totals = sessionsByCluster(rows);
      table.paint(matching(rows, filter.value));
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

function drainCard(key, { since, most, row, gone }, now) {
  const left = row.sessions;
  const meter = barred(left, most === 0 ? 0 : left / most, "warn");
  const word = gone !== null ? "removed" : left === 0 ? "empty" : "DRAINING";
  return el(
    "article",
    { class: "card", "aria-label": `${row.address} of ${row.cluster}` },
    el("p", { class: "cardhead" }, mono(row.address), chip(word, { removed: "calm", empty: "good", DRAINING: "warn" }[word])),
    el("p", { class: "quiet" }, `${row.cluster}, ${row.locality || "no locality"}, for ${age((gone ?? now) - since)}`),
    el("p", {}, meter, quiet(` of ${plural(most, "session")} left`)),
  );
}

function resourcesView(app) {
  const filter = filterBox("Filter resources", app.repaint);
  const badFirst = (row) => (toneOf(row.state) === "bad" ? 0 : toneOf(row.state) === "good" ? 2 : 1);
  const order = { LDS: 0, RDS: 1, CDS: 2, EDS: 3 };
  const table = new Table({
    label: "Resources",
    empty: "No resource is asked for: no channel has a control plane.",
    order: { column: "state", down: false },
    rowClass: (row) => (toneOf(row.state) === "bad" ? "marked" : ""),
    columns: [
      { key: "type", title: "Type", cell: (row) => row.type, sort: (row) => `${order[row.type] ?? 9} ${row.name}` },
      { key: "name", title: "Name", said: (row) => row.name, cell: (row) => mono(row.name), sort: (row) => row.name },
      {
        key: "state",
        title: "State",
        said: (row) => row.state,
        cell: (row) => chip(row.state.replaceAll("_", " "), toneOf(row.state)),
        sort: (row) => `${badFirst(row)} ${order[row.type] ?? 9} ${row.name}`,
      },
      { key: "version", title: "Version in use", said: (row) => row.version, cell: (row) => mono(row.version || "none"), sort: (row) => row.version },
      {
        key: "since",
        title: "Since",
        numeric: true,
        cell: (row) => (row.since === null ? "–" : ago(app.now() - row.since)),
        sort: (row) => -(row.since ?? 0),
      },
      { key: "server", title: "Server", said: (row) => row.server, cell: (row) => mono(row.server), sort: (row) => row.server },
      { key: "error", title: "Error", wide: true, cell: (row) => row.error || "–", sort: (row) => row.error },
    ],
  });
  return {
    element: el("div", {}, viewHead("Resources", "What the control plane gave, and what was refused. Trouble stands first.", filter), table.element),
    paint: (model, channel) => table.paint(matching(rowsOf(model, "resources", channel), filter.value)),
  };
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
    element: el("div", {}, viewHead("Connections", "Each transport, to hosts and to control planes.", filter), table.element),
    paint: (model, channel) => table.paint(matching(rowsOf(model, "connections", channel), filter.value)),
  };
}
