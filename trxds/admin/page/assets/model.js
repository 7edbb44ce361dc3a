// What the page knows of the program: the last snapshot with the changes since, and the events it was there for. Pure:
// it takes messages and times, and touches no element.

const SECTIONS = ["channels", "nodes", "endpoints", "connections", "resources", "sessions", "control_planes"];
const COUNTED = { channels: "calls", nodes: "picks", connections: "calls", sessions: "calls" };
const KEPT = { picks: 500, ads: 500, marks: 200, seconds: 1800 }; // events
const DRAINED_FOR = 120; // seconds that a drained host stays on the board

function newModel() {
  return {
    sections: emptySections(),
    picks: [], // newest last, like all of these
    ads: [],
    marks: [],
    seconds: [],
    missed: 0, // events that did not fit
    nacks: 0,
    pickOf: new Map(), // call -> its last pick
    meters: new Map(), // section and key -> {at, count, rate}
    drains: new Map(), // key of an endpoint -> {since, most, row, gone}
    callStats: newCallStats(),
    news: [], // what to tell who cannot see it
  };
}

function emptySections() {
  return Object.fromEntries(SECTIONS.map((name) => [name, new Map()]));
}

// A snapshot replaces everything of its program, changes are applied.
function take(model, message, now, program = "") {
  if (message.snapshot) takeSnapshot(model, message.snapshot, now, program);
  for (const { section, key, value } of message.changes ?? []) put(model, section, key, value, now);
  for (const event of message.events ?? []) happened(model, event);
}

function takeSnapshot(model, snapshot, now, program) {
  const start = keyIn(program, " ").trimEnd();
  for (const name of SECTIONS) {
    const rows = snapshot[name] ?? {};
    for (const key of model.sections[name].keys()) if (key.startsWith(start) && !Object.hasOwn(rows, key)) put(model, name, key, null, now);
    for (const [key, row] of Object.entries(rows)) put(model, name, key, row, now);
  }
}

function put(model, section, key, row, now) {
  const rows = model.sections[section];
  if (rows === undefined) return; // of a later version than this page
  const before = rows.get(key);
  if (row === null) rows.delete(key);
  else rows.set(key, row);
  if (section === "sessions" && row !== null && before !== undefined && row.moves > before.moves) moved(model, key, row);
  if (section === "endpoints") watchDrain(model, key, before, row, now);
  if (section === "channels" && row !== null && before !== undefined && row.state !== before.state)
    model.news.push({ about: "channel", text: `channel ${key} is ${row.state}` });
}

function moved(model, key, row) {
  const { from, to, reason, change } = row.last_move ?? { from: "", to: row.host, reason: "", change: "" };
  const why = change ? `${reasonInWords(reason)} (${change})` : reasonInWords(reason);
  model.news.push({ about: "session", text: `session ${key} moved from ${from} to ${to}: ${why}` });
}

function watchDrain(model, key, before, row, now) {
  const drain = model.drains.get(key);
  if (row !== null && row.health === "DRAINING") {
    if (drain === undefined || drain.gone !== null) {
      const most = Math.max(row.sessions, before ? before.sessions : 0);
      model.drains.set(key, { since: now, most, row, gone: null });
      if (before !== undefined) model.news.push({ about: "drain", text: `${row.address} of ${row.cluster} is draining` });
    } else {
      drain.most = Math.max(drain.most, row.sessions);
      drain.row = row;
    }
  } else if (row !== null) {
    model.drains.delete(key);
  } else if (drain !== undefined && drain.gone === null) {
    drain.gone = now;
    drain.row = { ...drain.row, sessions: 0 };
  }
}

function happened(model, event) {
  switch (event.kind) {
    case "pick":
      picked(model, { ...event, status: "", message: "", seconds: null });
      model.pickOf.set(callKey(event), model.picks.at(-1));
      break;
    case "call_ended":
      finished(model, event);
      noteMessage(model.callStats, event);
      break;
    case "per_second_calls":
      countCalls(model.callStats, event);
      break;
    case "ads":
      keep(model.ads, event, KEPT.ads);
      if (event.answer === "NACK") {
        model.nacks += 1;
        model.news.push({ about: "nack", text: `${event.type} from ${event.server} was refused: ${event.error}` });
      }
      break;
    case "config_applied":
      keep(model.marks, event, KEPT.marks);
      break;
    case "per_second_stats":
      keep(model.seconds, event, KEPT.seconds);
      break;
    case "missed":
      model.missed += event.count;
  }
}

function callKey(event) {
  return `${event.channel}\n${event.call}`;
}

function picked(model, row) {
  keep(model.picks, row, KEPT.picks, (old) => {
    if (model.pickOf.get(callKey(old)) === old) model.pickOf.delete(callKey(old));
  });
}

// A call that fails before it has a pick, for want of a route say, is what somebody will look for among the picks.
function finished(model, event) {
  const pick = model.pickOf.get(callKey(event));
  if (pick === undefined) {
    if (event.status !== "OK") picked(model, { ...event, why: "", metadata: {} });
    return;
  }
  Object.assign(pick, { status: event.status, message: event.message, seconds: event.seconds });
  model.pickOf.delete(callKey(event));
}

function keep(list, event, most, dropped = () => {}) {
  list.push(event);
  while (list.length > most) dropped(list.shift());
}

// Once a second: what was counted becomes a rate, and what is long over leaves.
function beat(model, now) {
  const alive = new Map();
  for (const [section, counter] of Object.entries(COUNTED))
    for (const [key, row] of model.sections[section]) {
      const name = `${section}\n${key}`;
      alive.set(name, metered(model.meters.get(name), row[counter], now));
    }
  model.meters = alive;
  forgetOldCalls(model.callStats, now);
  for (const [key, drain] of model.drains)
    if (drain.gone !== null && now - drain.gone > DRAINED_FOR) model.drains.delete(key);
}

function metered(meter, counted, now) {
  if (meter === undefined) return { at: now, count: counted, rate: 0 };
  if (now - meter.at < 0.9) return meter;
  // Half of the last one: a number that jumps each second is not read.
  const fresh = Math.max(0, counted - meter.count) / (now - meter.at);
  const rate = meter.rate === 0 || fresh === 0 ? fresh : (fresh + meter.rate) / 2;
  return { at: now, count: counted, rate };
}

function rateOf(model, section, key) {
  return model.meters.get(`${section}\n${key}`)?.rate ?? 0;
}

// Rows of a section, or events, that are of a channel; "" stands for all of them.
function rowsOf(model, section, channel) {
  const rows = [...model.sections[section]].map(([key, row]) => ({ key, row }));
  if (channel === "") return rows;
  // An xDS client that channels share is shown under one of them, and is a part of each.
  const client = model.sections.channels.get(channel)?.client;
  const isOf = ({ key, row }) => (row.channel ?? key) === channel || (client && row.channel === client && isOfClient(section, row));
  return rows.filter(isOf);
}

function isOfClient(section, row) {
  return section === "resources" || section === "control_planes" || (section === "connections" && row.kind !== "data");
}

// Events of the talk with the control plane, and what it brought about.
function clientEventsOf(model, events, channel) {
  return eventsOf(events, model.sections.channels.get(channel)?.client || channel);
}

function eventsOf(events, channel) {
  return channel === "" ? events : events.filter((event) => event.channel === channel);
}

// One second of several channels, by the second in which it ended: sums, and of the latencies the worst.
function secondsByTime(seconds, channel) {
  const byTime = new Map();
  for (const each of eventsOf(seconds, channel)) {
    const time = Math.floor(each.time);
    const sum = byTime.get(time) ?? { time, requests: 0, failed: 0, errors: {}, p50: 0, p99: 0 };
    sum.requests += each.requests;
    for (const [code, number] of Object.entries(each.errors)) {
      sum.failed += number;
      sum.errors[code] = (sum.errors[code] ?? 0) + number;
    }
    sum.p50 = Math.max(sum.p50, each.p50);
    sum.p99 = Math.max(sum.p99, each.p99);
    byTime.set(time, sum);
  }
  return byTime;
}

// What stands above every view: is it well, now?
function vitals(model, channel, now) {
  const channels = rowsOf(model, "channels", channel);
  const sessions = rowsOf(model, "sessions", channel);
  const byTime = secondsByTime(model.seconds.slice(-20), channel);
  // The last one that is over, if it is not long over: a second is told some time after its end.
  const last = [...byTime.values()].filter(({ time }) => time >= Math.floor(now) - 4).at(-1);
  const troubled = rowsOf(model, "resources", channel).filter(({ row }) => toneOf(row.state) === "bad");
  const states = channels.map(({ row }) => row.state);
  return {
    state: WORST_FIRST.find((state) => states.includes(state)) ?? "",
    error: channels.map(({ row }) => row.error).find((error) => error) ?? "",
    requests: last?.requests ?? 0,
    failed: last?.failed ?? 0,
    p50: last?.p50 ?? null,
    p99: last?.p99 ?? null,
    open: channels.reduce((sum, { row }) => sum + row.open, 0),
    sessions: sessions.length,
    hosts: new Set(rowsOf(model, "endpoints", channel).map(({ row }) => row.address)).size,
    states,
    notReady: channels.filter(({ row }) => row.state !== "READY").map(({ key, row }) => `${key} ${row.state}`),
    warnings: channels.flatMap(({ key, row }) => warningsOf(row).map((text) => (channels.length > 1 ? `${key}: ${text}` : text))),
    movedLately: sessions.filter(({ row }) => row.last_move && now - row.last_move.time < 60).length,
    draining: drainedHosts(model, channel).filter(({ gone }) => gone === null).length,
    mark: clientEventsOf(model, model.marks, channel).at(-1) ?? null,
    troubled: troubled.length,
  };
}

// A channel's warnings without those that the alarm gives.
function warningsOf(row) {
  return (row.warnings ?? []).filter((text) => !(row.outages ?? []).some((outage) => text.endsWith(outage)));
}

// Control planes that cannot be reached, each once: [{text, channels}].
function outages(model) {
  const found = new Map();
  for (const [key, row] of model.sections.channels)
    for (const text of row.outages ?? []) {
      // Two clients find out at different times that one control plane is lost.
      const what = text.replace(/ since \S+:/, "");
      const outage = found.get(what) ?? { text, channels: [] };
      found.set(what, { text: text < outage.text ? text : outage.text, channels: [...outage.channels, key] });
    }
  return [...found.values()];
}

const WORST_FIRST = ["TRANSIENT_FAILURE", "CONNECTING", "IDLE", "SHUTDOWN", "READY"];

// What a screen reader says of all that happened since it last spoke: one sentence, whatever the number.
function announcement(news) {
  const of = (about) => news.filter((each) => each.about === about);
  return ["channel", "nack", "drain", "session"]
    .flatMap((about) => {
      const some = of(about);
      return some.length <= 2 ? some.map((each) => each.text) : [`${some.length} ${SAID_TOGETHER[about]}`];
    })
    .join(". ");
}

const SAID_TOGETHER = {
  channel: "changes of channels' states",
  nack: "updates were refused",
  drain: "hosts began to drain",
  session: "sessions moved",
};
