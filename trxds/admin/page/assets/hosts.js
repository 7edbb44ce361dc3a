// Hosts, each of them once: it may serve several clusters of several channels. Pure.

const HEALTH_WORST_FIRST = ["ejected", "DRAINING", "HEALTHY", "UNKNOWN"];

// By address: what the control plane says of it, its connections, sessions, and calls of the last seconds.
function hostRows(model, channel, now) {
  const hosts = new Map();
  const aliases = new Map(); // a further address of a host -> its first
  const hostAt = (address) => {
    const key = aliases.get(address) ?? address;
    if (!hosts.has(key)) hosts.set(key, { address: key, channels: new Set(), clusters: new Set(), healths: new Set(), states: new Set(), sessions: 0, calls: null });
    return hosts.get(key);
  };
  for (const { row } of rowsOf(model, "endpoints", channel)) {
    for (const more of (row.addresses ?? []).slice(1)) aliases.set(more, row.address);
    const host = hostAt(row.address);
    host.channels.add(row.channel);
    host.clusters.add(row.cluster);
    host.healths.add(row.ejected ? "ejected" : row.health);
    if (row.state !== null) host.states.add(row.state);
  }
  for (const { row } of rowsOf(model, "sessions", channel)) {
    if (!row.host) continue;
    const host = hostAt(row.host);
    host.channels.add(row.channel);
    host.sessions += 1;
  }
  for (const [address, calls] of ratesBy(model.callStats, "host", channel, now)) if (address) hostAt(address).calls = calls;
  return [...hosts].map(([key, host]) => ({ key, row: summed(host) }));
}

function summed({ healths, states, channels, clusters, ...host }) {
  return {
    ...host,
    channels: [...channels].sort(),
    clusters: [...clusters].sort(),
    // Who knows a host by its sessions or calls alone knows one that was removed.
    health: HEALTH_WORST_FIRST.find((each) => healths.has(each)) ?? [...healths][0] ?? "removed",
    state: WORST_FIRST.find((each) => states.has(each)) ?? [...states][0] ?? null,
  };
}

// Draining hosts, each once: the sessions that are left on it over all channels, and since when it drains.
function drainedHosts(model, channel) {
  const left = new Map();
  for (const { row } of rowsOf(model, "sessions", channel)) left.set(row.host, (left.get(row.host) ?? 0) + 1);
  const hosts = new Map();
  for (const drain of model.drains.values()) {
    const { row, since, gone } = drain;
    if (channel && row.channel !== channel) continue;
    const host = hosts.get(row.address) ?? { address: row.address, channels: new Set(), clusters: new Set(), localities: new Set(), since, gone, most: 0 };
    host.most += drain.most;
    host.channels.add(row.channel);
    host.clusters.add(row.cluster);
    if (row.locality) host.localities.add(row.locality);
    host.since = Math.min(host.since, since);
    host.gone = host.gone === null || gone === null ? null : Math.max(host.gone, gone);
    hosts.set(row.address, host);
  }
  for (const host of hosts.values()) {
    host.left = host.gone === null ? [host.address, ...aliasesOf(model, host.address)].reduce((sum, address) => sum + (left.get(address) ?? 0), 0) : 0;
    host.most = Math.max(host.left, host.most);
  }
  return [...hosts.values()];
}

function aliasesOf(model, address) {
  for (const row of model.sections.endpoints.values()) if (row.address === address && row.addresses?.length > 1) return row.addresses.slice(1);
  return [];
}
