// Calls by method, host and status, as the program counts them second by second. Pure.

const WINDOW = 10; // seconds over which rates and latencies are taken
const KEPT_SECONDS = 60;
const KEPT_ERRORS = 1000; // rows
const BETWEEN_BOUNDS = 2 ** -0.125; // from a bucket's upper bound to its middle

function newCallStats() {
  return {
    seconds: [], // per_second_calls, oldest first, of the last minute
    since: null, // when the first came
    totals: new Map(), // channel, method and host -> calls
    errors: new Map(), // those and the status -> {channel, method, cluster, host, status, count, first, last}
    messages: new Map(), // the same key -> the last message
  };
}

function countCalls(stats, event) {
  stats.since ??= event.time;
  stats.seconds.push(event);
  const place = [event.channel, event.method, event.host].join("\n");
  bounded(stats.totals, place, (stats.totals.get(place) ?? 0) + event.requests);
  for (const [status, number] of Object.entries(event.errors)) {
    const key = `${place}\n${status}`;
    const { channel, method, cluster, host } = event;
    const row = stats.errors.get(key) ?? { channel, method, cluster, host, status, count: 0, first: event.time };
    bounded(stats.errors, key, { ...row, cluster, count: row.count + number, last: event.time });
  }
}

function noteMessage(stats, event) {
  if (event.status !== "OK") bounded(stats.messages, [event.channel, event.method, event.host, event.status].join("\n"), event.message);
}

// What was set longest ago is dropped first.
function bounded(map, key, value) {
  map.delete(key);
  map.set(key, value);
  if (map.size > KEPT_ERRORS) map.delete(map.keys().next().value);
}

function forgetOldCalls(stats, now) {
  let old = 0;
  while (old < stats.seconds.length && stats.seconds[old].time < now - KEPT_SECONDS) old += 1;
  if (old > 0) stats.seconds.splice(0, old);
}

// By host, or another field: {rate, errorRate, p50, p99} of the last seconds.
function ratesBy(stats, field, channel, now) {
  const from = Math.floor(now) - WINDOW - 2; // a second is told some time after its end
  const sums = new Map();
  for (const event of stats.seconds) {
    if (event.time < from || (channel && event.channel !== channel)) continue;
    const sum = sums.get(event[field]) ?? { requests: 0, failed: 0, times: new Map() };
    sum.requests += event.requests;
    for (const number of Object.values(event.errors)) sum.failed += number;
    for (const [bound, number] of Object.entries(event.times)) sum.times.set(bound, (sum.times.get(bound) ?? 0) + number);
    sums.set(event[field], sum);
  }
  const seconds = stats.since === null ? WINDOW : Math.max(1, Math.min(WINDOW, now - stats.since));
  return new Map([...sums].map(([key, { requests, failed, times }]) => [key, {
    rate: requests / seconds, errorRate: failed / seconds, failed, p50: quantile(times, 0.5), p99: quantile(times, 0.99),
  }]));
}

// Of a Map of upper bounds to numbers, the middle of the bucket in which the share is reached.
function quantile(times, share) {
  const bounds = [...times].map(([bound, number]) => [Number(bound), number]).sort(([a], [b]) => a - b);
  let wanted = Math.ceil(share * bounds.reduce((sum, [, number]) => sum + number, 0));
  for (const [bound, number] of bounds) {
    wanted -= number;
    if (wanted <= 0) return bound * BETWEEN_BOUNDS;
  }
  return null;
}

const ERROR_FIELDS = ["channel", "method", "host", "status"];

// Errors since the page was opened, by all four fields or by one of them; the newest message of each.
function errorRows(stats, channel, by) {
  const fields = by === "" ? ERROR_FIELDS : [by];
  const rows = new Map();
  for (const [place, error] of stats.errors) {
    if (channel && error.channel !== channel) continue;
    const key = fields.map((field) => error[field]).join("\n");
    const row = rows.get(key) ?? { count: 0, first: error.first, last: 0, message: "", total: 0, places: new Set() };
    for (const field of ERROR_FIELDS) row[field] = row.last === 0 || row[field] === error[field] ? error[field] : null;
    row.count += error.count;
    row.first = Math.min(row.first, error.first);
    if (error.last >= row.last) Object.assign(row, { last: error.last, message: stats.messages.get(place) ?? "" });
    const counted = [error.channel, error.method, error.host].join("\n");
    if (!row.places.has(counted)) row.total += stats.totals.get(counted) ?? 0;
    row.places.add(counted);
    rows.set(key, row);
  }
  return [...rows].map(([key, row]) => ({ key, row }));
}
