// The views that sum up: channels, hosts, and errors.

function channelsView(app) {
  const filter = filterBox("Filter channels", app.repaint);
  let rates = new Map();
  let hosts = new Map();
  const rateOfChannel = (key) => rates.get(key) ?? { rate: 0, errorRate: 0, p50: null, p99: null };
  const planesOf = (model, key) => rowsOf(model, "control_planes", key).filter(({ row }) => row.kind === "ads").map(({ row }) => row);
  const planeText = (planes) => planes.map((row) => `${row.server} ${row.state} ${row.error}`).join("; ");
  const troubles = (row) => [row.error, row.outages?.length ? "the control plane is lost" : "", ...warningsOf(row)].filter(Boolean).join("\n");
  const table = new Table({
    label: "Channels",
    empty: "The program has no channel here.",
    order: { column: "channel", down: false },
    rowClass: (row) => (row.error || row.outages?.length ? "marked" : ""),
    columns: [
      {
        key: "channel",
        title: "Channel",
        said: (row, key) => `${key} ${row.target} ${app.hueOf(key)}`,
        cell: (row, key) => el("span", { class: "two" }, linkTo(app, { view: "sessions", channel: key }, channelTag(app, key)), quiet(row.target)),
        sort: (row, key) => key,
      },
      { key: "state", title: "State", said: (row) => row.state, cell: (row) => chip(row.state), sort: (row) => row.state },
      { key: "rate", title: "Requests", numeric: true, cell: (row, key) => perSecond(rateOfChannel(key).rate), sort: (row, key) => rateOfChannel(key).rate },
      { key: "errors", title: "Errors", numeric: true, said: (row, key) => perSecond(rateOfChannel(key).errorRate), cell: (row, key) => errorRate(rateOfChannel(key)), sort: (row, key) => rateOfChannel(key).errorRate },
      { key: "p50", title: "p50", numeric: true, cell: (row, key) => millis(rateOfChannel(key).p50), sort: (row, key) => rateOfChannel(key).p50 ?? 0 },
      { key: "p99", title: "p99", numeric: true, cell: (row, key) => millis(rateOfChannel(key).p99), sort: (row, key) => rateOfChannel(key).p99 ?? 0 },
      { key: "sessions", title: "Sessions", numeric: true, cell: (row, key) => count(rowsOf(app.model, "sessions", key).length), sort: (row, key) => rowsOf(app.model, "sessions", key).length },
      { key: "hosts", title: "Hosts", numeric: true, cell: (row, key) => count(hosts.get(key) ?? 0), sort: (row, key) => hosts.get(key) ?? 0 },
      {
        key: "planes",
        title: "Control plane",
        said: (row, key) => planeText(planesOf(app.model, key)),
        cell: (row, key) => planesOf(app.model, key).length === 0 ? quiet("none") : el("span", { class: "two" }, ...planesOf(app.model, key).map((plane) => el("span", {}, chip(plane.state), " ", mono(plane.server)))),
        sort: (row, key) => planeText(planesOf(app.model, key)),
      },
      { key: "trouble", title: "Warnings", wide: true, cell: (row) => troubles(row) || "–", sort: troubles },
    ],
  });
  return {
    filter,
    element: el("div", {}, viewHead("Channels", "Each channel with its traffic of the last ten seconds.", filter), table.element),
    paint(model, channel, now) {
      rates = ratesBy(model.callStats, "channel", channel, now);
      hosts = hostsByChannel(model);
      table.paint(matching(rowsOf(model, "channels", channel), filter.value));
    },
  };
}

function hostsByChannel(model) {
  const addresses = new Map();
  for (const row of model.sections.endpoints.values()) {
    if (!addresses.has(row.channel)) addresses.set(row.channel, new Set());
    addresses.get(row.channel).add(row.address);
  }
  return new Map([...addresses].map(([channel, its]) => [channel, its.size]));
}

function errorRate({ errorRate: rate }) {
  return rate > 0 ? chip(perSecond(rate), "bad") : "0/s";
}

function linkTo(app, place, ...content) {
  return el("a", { href: hashOf({ find: "", open: "", by: "", channel: app.place.channel, ...place }) }, ...content);
}

function hostsView(app) {
  const filter = filterBox("Filter hosts", app.repaint);
  const none = { rate: 0, errorRate: 0, p50: null, p99: null };
  const callsOf = (row) => row.calls ?? none;
  let most = 1;
  const table = new Table({
    label: "Hosts",
    empty: "No host is known.",
    order: { column: "sessions", down: true },
    rowClass: (row) => (["DRAINING", "ejected", "removed"].includes(row.health) || row.state === "TRANSIENT_FAILURE" ? "marked" : ""),
    columns: [
      { key: "address", title: "Host", said: (row) => row.address, cell: (row) => mono(row.address), sort: (row) => row.address },
      {
        key: "channels",
        title: "Channels",
        ofChannel: true,
        said: (row) => row.channels.map((each) => `${each} ${app.hueOf(each)}`).join(),
        cell: (row) => el("span", { class: "tags" }, ...row.channels.map((each) => channelTag(app, each))),
        sort: (row) => row.channels.join(),
      },
      { key: "clusters", title: "Clusters", cell: (row) => row.clusters.join(", ") || "–", sort: (row) => row.clusters.join() },
      { key: "health", title: "Control plane says", said: (row) => row.health, cell: (row) => chip(row.health), sort: (row) => row.health },
      { key: "state", title: "Connection", said: (row) => row.state ?? "", cell: (row) => (row.state === null ? quiet("not wanted yet") : chip(row.state)), sort: (row) => row.state ?? "" },
      {
        key: "sessions",
        title: "Sessions",
        said: (row) => `${row.sessions} ${most} ${app.place.channel}`,
        cell: (row) => row.sessions > 0 ? linkTo(app, { view: "sessions", find: row.address }, barred(row.sessions, row.sessions / most)) : barred(0, 0),
        sort: (row) => row.sessions,
      },
      { key: "rate", title: "Requests", numeric: true, cell: (row) => perSecond(callsOf(row).rate), sort: (row) => callsOf(row).rate },
      { key: "errors", title: "Errors", numeric: true, said: (row) => perSecond(callsOf(row).errorRate), cell: (row) => errorRate(callsOf(row)), sort: (row) => callsOf(row).errorRate },
      { key: "p50", title: "p50", numeric: true, cell: (row) => millis(callsOf(row).p50), sort: (row) => callsOf(row).p50 ?? 0 },
      { key: "p99", title: "p99", numeric: true, cell: (row) => millis(callsOf(row).p99), sort: (row) => callsOf(row).p99 ?? 0 },
    ],
  });
  return {
    filter,
    element: el("div", {}, viewHead("Hosts", "Each host once, with its sessions, and its calls of the last ten seconds.", filter), table.element),
    paint(model, channel, now) {
      const rows = hostRows(model, channel, now);
      most = Math.max(1, ...rows.map(({ row }) => row.sessions));
      table.paint(matching(rows, filter.value), app.isOneChannel());
    },
  };
}

const GROUPINGS = [["method, host and status", ""], ["method", "method"], ["host", "host"], ["status", "status"]];

function errorsView(app) {
  const filter = filterBox("Filter errors", app.repaint);
  const by = el("select", { "aria-label": "Group errors by" }, ...GROUPINGS.map(([name, value]) => el("option", { value }, `by ${name}`)));
  by.addEventListener("change", () => app.go({ by: by.value }));
  const several = (value, none) => (value === null ? quiet("several") : value === "" ? quiet(none) : mono(value));
  const table = new Table({
    label: "Errors",
    empty: "No call has failed since this page was opened.",
    order: { column: "count", down: true },
    rowClass: (row) => (app.now() - row.last < 10 ? "fresh" : ""),
    columns: [
      { key: "status", title: "Status", said: (row) => String(row.status), cell: (row) => (row.status === null ? quiet("several") : chip(row.status, "bad")), sort: (row) => row.status ?? "" },
      { key: "method", title: "Method", said: (row) => String(row.method), cell: (row) => several(row.method, "other methods"), sort: (row) => row.method ?? "" },
      { key: "host", title: "Host", said: (row) => String(row.host), cell: (row) => several(row.host, "no host"), sort: (row) => row.host ?? "" },
      { key: "channel", title: "Channel", ofChannel: true, said: (row) => `${row.channel} ${row.channel && app.hueOf(row.channel)}`, cell: (row) => (row.channel === null ? quiet("several") : channelTag(app, row.channel)), sort: (row) => row.channel ?? "" },
      { key: "count", title: "Errors", numeric: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { key: "share", title: "Of calls", numeric: true, cell: (row) => (row.total ? percent(row.count / row.total) : "–"), sort: (row) => (row.total ? row.count / row.total : 0) },
      { key: "last", title: "Last", numeric: true, cell: (row) => ago(app.now() - row.last), sort: (row) => row.last },
      { key: "message", title: "Last message", wide: true, cell: (row) => row.message || "–", sort: (row) => row.message },
    ],
  });
  return {
    filter,
    element: el("div", {}, viewHead("Errors", "Calls that failed since this page was opened.", by, filter), table.element),
    paint(model, channel) {
      by.value = app.place.by;
      table.paint(matching(errorRows(model.callStats, channel, app.place.by), filter.value), app.isOneChannel());
    },
  };
}
