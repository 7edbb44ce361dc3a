// The page's parts without a document: what it makes of messages, and where it draws things. `tests/admin/page/test_page_parts.py` runs this.

import assert from "node:assert/strict";
import { test } from "node:test";
import { parts, plain } from "./page_parts.mjs";

const page = parts();

const session = (more = {}) => ({ channel: "shop", host: "10.0.0.1:1", cluster: "blue", since: 0, calls: 1, moves: 0, last_move: null, ...more });
const endpoint = (more = {}) => ({ channel: "shop", address: "10.0.0.1:1", cluster: "blue", priority: 0, locality: "a", health: "HEALTHY", state: "READY", weight: 1, ejected: false, sessions: 2, ...more });
const node = (path, parent, children, more = {}) => ({ channel: "shop", path, policy: `p_${path}`, parent, state: "READY", picks: 0, children, says: "", warm: false, ...more });

function modelWith(sections, now = 0) {
  const model = page.newModel();
  page.take(model, { number: 1, snapshot: sections }, now);
  return model;
}

const told = (model, changes = [], events = [], now = 1) => page.take(model, { number: 2, changes, events }, now);
const change = (section, key, value) => ({ section, key, value });
const keys = (model, section) => [...model.sections[section].keys()];

test("a snapshot replaces everything that was known", () => {
  const model = modelWith({ sessions: { "shop/1": session() } });
  page.take(model, { number: 9, snapshot: { sessions: { "shop/2": session() } } }, 1);
  assert.deepEqual(keys(model, "sessions"), ["shop/2"]);
});

test("a change replaces a row, and null takes it away", () => {
  const model = modelWith({ sessions: { "shop/1": session(), "shop/2": session() } });
  told(model, [change("sessions", "shop/1", session({ calls: 7 })), change("sessions", "shop/2", null)]);
  assert.deepEqual(plain([...model.sections.sessions]), [["shop/1", plain(session({ calls: 7 }))]]);
});

test("a section of a later version is not known and does no harm", () => {
  const model = modelWith({});
  told(model, [change("weather", "x", { sun: true })]);
  assert.equal(model.sections.weather, undefined);
});

test("a key called __proto__ is a key like any other", () => {
  const model = modelWith(JSON.parse('{"sessions": {"__proto__": {"moves": 0}}}'));
  assert.deepEqual(keys(model, "sessions"), ["__proto__"]);
});

test("a session that moved is news, once", () => {
  const model = modelWith({ sessions: { "shop/1": session() } });
  const last_move = { time: 1, from: "10.0.0.1:1", to: "10.0.0.2:1", reason: "unknown_host" };
  const moved = change("sessions", "shop/1", session({ moves: 1, host: "10.0.0.2:1", last_move }));
  told(model, [moved]);
  told(model, [moved]);
  assert.deepEqual(plain(model.news).map(({ text }) => text), ["session shop/1 moved from 10.0.0.1:1 to 10.0.0.2:1: the host was removed, or is DRAINING and may not be used"]);
});

test("three moves are announced as one sentence", () => {
  const news = [1, 2, 3].map((number) => ({ about: "session", text: `session ${number} moved` }));
  assert.equal(page.announcement(news), "3 sessions moved");
});

test("a draining host stands on the board with the most sessions it had", () => {
  const model = modelWith({ endpoints: { e: endpoint({ sessions: 5 }) } });
  told(model, [change("endpoints", "e", endpoint({ health: "DRAINING", sessions: 4 }))], [], 10);
  told(model, [change("endpoints", "e", endpoint({ health: "DRAINING", sessions: 1 }))], [], 20);
  const drain = model.drains.get("e");
  assert.deepEqual([drain.since, drain.most, drain.row.sessions, drain.gone], [10, 5, 1, null]);
});

test("a drained host that was removed stays on the board for two minutes", () => {
  const model = modelWith({ endpoints: { e: endpoint({ health: "DRAINING" }) } });
  told(model, [change("endpoints", "e", null)], [], 10);
  page.beat(model, 130);
  assert.equal(model.drains.get("e").gone, 10);
  page.beat(model, 131);
  assert.equal(model.drains.size, 0);
});

test("a host that is fit again leaves the board", () => {
  const model = modelWith({ endpoints: { e: endpoint({ health: "DRAINING" }) } });
  told(model, [change("endpoints", "e", endpoint())]);
  assert.equal(model.drains.size, 0);
});

test("the end of a call finds the last of its picks", () => {
  const model = modelWith({});
  const pick = (host) => ({ kind: "pick", channel: "shop", call: 4, host });
  told(model, [], [pick("a"), pick("b"), { kind: "call_ended", channel: "shop", call: 4, status: "OK", message: "", seconds: 0.5 }]);
  assert.deepEqual(plain(model.picks.map(({ host, status }) => [host, status])), [["a", ""], ["b", "OK"]]);
});

test("a call that fails without a pick stands among the picks, and one that was let go of is not told twice", () => {
  const model = modelWith({});
  const done = (call, status) => ({ kind: "call_ended", channel: "shop", call, method: "/nobody.X/Get", session: null, status, message: "", seconds: 0 });
  told(model, [], [done(1, "UNAVAILABLE"), done(2, "OK")]);
  assert.deepEqual(plain(model.picks.map(({ call, status, why }) => [call, status, why])), [[1, "UNAVAILABLE", ""]]);
});

test("no more picks are kept than can be looked at", () => {
  const model = modelWith({});
  for (let call = 0; call < 700; call += 1) told(model, [], [{ kind: "pick", channel: "shop", call }]);
  assert.deepEqual([model.picks.length, model.picks[0].call, model.pickOf.size], [500, 200, 500]);
});

test("a rate is what was counted in a second, and falls to nothing when nothing is", () => {
  const model = modelWith({ connections: { c: { channel: "shop", calls: 0 } } });
  page.beat(model, 1);
  told(model, [change("connections", "c", { channel: "shop", calls: 40 })]);
  page.beat(model, 2);
  assert.equal(page.rateOf(model, "connections", "c"), 40);
  page.beat(model, 3);
  assert.equal(page.rateOf(model, "connections", "c"), 0);
});

test("seconds of two channels add up, and of their latencies the worse one counts", () => {
  const second = (channel, requests, p99) => ({ channel, time: 7.2, requests, errors: { UNAVAILABLE: 1 }, p50: 0.001, p99 });
  const sum = page.secondsByTime([second("a", 10, 0.02), second("b", 5, 0.03)], "").get(7);
  assert.deepEqual([sum.requests, sum.failed, sum.p99, plain(sum.errors)], [15, 2, 0.03, { UNAVAILABLE: 2 }]);
});

test("the vital signs show the worst state of the channels, and a refused resource", () => {
  const channel = (state, warnings = []) => ({ target: "", state, calls: 1, failed: 0, open: 2, error: "", warnings });
  const model = modelWith({
    channels: { a: channel("READY"), b: channel("TRANSIENT_FAILURE", ["calls of sessions to /a/B are not sticky"]) },
    resources: { r: { channel: "a", type: "CDS", name: "x", state: "nacked" } },
  });
  const { state, open, troubled, warnings } = page.vitals(model, "", 0);
  assert.deepEqual([state, open, troubled, warnings.length], ["TRANSIENT_FAILURE", 4, 1, 1]);
});

const tree = new Map([
  ["r", node("root", null, ["b", "g"])],
  ["b", node("root/blue", "r", ["bp"])],
  ["bp", node("root/blue/x", "b", ["b1", "b2"])],
  ["b1", node("root/blue/x/1", "bp", [])],
  ["b2", node("root/blue/x/2", "bp", [])],
  ["g", node("root/green", "r", [])],
]);

test("policies with one child each stand in one box", () => {
  const { boxes } = page.layoutTree(tree, () => 0);
  assert.deepEqual(plain(boxes.map(({ lines }) => lines)), [["r"], ["b", "bp"], ["b1"], ["b2"], ["g"]]);
});

test("no two boxes of the tree overlap", () => {
  const { boxes } = page.layoutTree(tree, () => 0);
  for (const a of boxes)
    for (const b of boxes)
      if (a !== b && a.x === b.x) assert.ok(a.y + a.height <= b.y || b.y + b.height <= a.y, `${a.key} and ${b.key}`);
});

test("of a thousand children the busiest are drawn, and the others counted", () => {
  const children = Array.from({ length: 1000 }, (_, number) => `c${number}`);
  const many = new Map([["r", node("root", null, children)], ...children.map((key) => [key, node(`root/${key}`, "r", [])])]);
  const { boxes } = page.layoutTree(many, (key) => (key === "c900" ? 5 : 0));
  assert.deepEqual([boxes[0].more, boxes.length, boxes.some(({ key }) => key === "c900")], [988, 13, true]);
});

test("children that are not there any more are not drawn", () => {
  const { boxes } = page.layoutTree(new Map([["r", node("root", null, ["gone"])]]), () => 0);
  assert.equal(boxes.length, 1);
});

test("a filter keeps what it finds, all below it and the way to it", () => {
  assert.deepEqual([...page.branchesWith(tree, "blue/x")].sort(), ["b", "b1", "b2", "bp", "r"]);
});

test("scales end at a round number", () => {
  assert.deepEqual([0, 0.0012, 1, 3, 7, 101, 0.2].map(page.niceTop), [1, 0.002, 1, 5, 10, 200, 0.2]);
});

test("a mark stands where its configuration came into force, and one outside is left out", () => {
  const marks = [{ time: 5, number: 1, text: "a" }, { time: 75, number: 2, text: "b" }];
  const chart = page.layoutChart(new Map(), marks, { from: 60, to: 120, width: 600, height: 100 });
  assert.deepEqual(plain(chart.flags), [{ x: 150, label: "2", text: "b" }]);
});

test("marks that would cover each other share a flag", () => {
  const marks = [75, 76, 77, 90].map((time, index) => ({ time, number: index + 1, text: `t${time}` }));
  const chart = page.layoutChart(new Map(), marks, { from: 60, to: 120, width: 600, height: 100 });
  assert.deepEqual(plain(chart.flags.map(({ label, text }) => [label, text])), [["1–3", "t75; t76; t77"], ["4", "t90"]]);
});

test("a line breaks where no call ended", () => {
  const second = (time) => [time, { time, requests: 1, failed: 0, p50: 0.001, p99: 0.001, errors: {} }];
  const { p99 } = page.layoutChart(new Map([second(1), second(2), second(8)]), [], { from: 0, to: 10, width: 100, height: 10 });
  assert.equal(p99.split("M").length - 1, 2);
});

test("errors stand on top of what went well", () => {
  const second = { time: 0, requests: 10, failed: 5, p50: 0, p99: 0, errors: {} };
  const [bar] = page.layoutChart(new Map([[0, second]]), [], { from: 0, to: 1, width: 10, height: 100 }).bars;
  assert.deepEqual([bar.top, bar.errorBottom], [0, 50]);
});

test("metadata is read line by line, and a value may have colons", () => {
  assert.deepEqual(plain(page.metadataFrom("user: 7\n cookie : a=b:c \nnothing\n")), [["user", "7"], ["cookie", "a=b:c"]]);
});

test("durations are said with two figures at most", () => {
  assert.deepEqual([0.3, 4.9, 61, 3700, 90000].map(page.age), ["now", "4 s", "1 min", "1 h 1 min", "1 d 1 h"]);
});

test("the views, the channel, the filter and what is open are in the address and come back from it", () => {
  const place = { view: "resources", channel: "shop#2", find: "a & b", open: "shop/CDS/outbound|443||cart", by: "" };
  assert.deepEqual(plain(page.placeFrom(page.hashOf(place), ["sessions", "resources"])), place);
  assert.equal(page.hashOf({ view: "tree", channel: "", find: "", open: "", by: "" }), "#tree");
  assert.equal(page.placeFrom("#nonsense", ["sessions"]).view, "sessions");
});

const calls = (more = {}) => ({ kind: "per_second_calls", time: 100, channel: "shop", method: "/s/M", cluster: "blue", host: "10.0.0.1:1", requests: 10, errors: {}, times: { 0.105: 10 }, ...more });

test("rates and latencies of a host are taken over the last seconds, of all channels or of one", () => {
  const model = modelWith({});
  told(model, [], [calls(), calls({ time: 101, channel: "other", errors: { UNAVAILABLE: 4 }, times: { 0.105: 1, 1: 9 } })]);
  const all = page.ratesBy(model.callStats, "host", "", 110).get("10.0.0.1:1");
  assert.deepEqual([all.rate, all.errorRate], [2, 0.4]);
  assert.ok(Math.abs(all.p50 - 0.096) < 0.001 && Math.abs(all.p99 - 0.917) < 0.001, JSON.stringify(all));
  assert.equal(page.ratesBy(model.callStats, "host", "shop", 110).get("10.0.0.1:1").rate, 1);
  assert.equal(page.ratesBy(model.callStats, "host", "", 200).size, 0);
});

test("errors are summed by method, host and status, or by one of them, with the last message", () => {
  const model = modelWith({});
  told(model, [], [
    { kind: "call_ended", channel: "shop", call: 1, method: "/s/M", host: "10.0.0.1:1", status: "UNAVAILABLE", message: "down", seconds: 0 },
    calls({ errors: { UNAVAILABLE: 2, ABORTED: 1 } }),
    calls({ time: 105, host: "10.0.0.2:1", errors: { UNAVAILABLE: 5 } }),
  ]);
  const rows = (by) => page.errorRows(model.callStats, "", by).map(({ row }) => [row.host, row.status, row.count, row.total, row.message]);
  assert.deepEqual(plain(rows("")), [["10.0.0.1:1", "UNAVAILABLE", 2, 10, "down"], ["10.0.0.1:1", "ABORTED", 1, 10, ""], ["10.0.0.2:1", "UNAVAILABLE", 5, 10, ""]]);
  assert.deepEqual(plain(rows("status")), [[null, "UNAVAILABLE", 7, 20, ""], ["10.0.0.1:1", "ABORTED", 1, 10, ""]]);
  assert.deepEqual(plain(page.errorRows(model.callStats, "other", "")), []);
});

test("no more kinds of errors are kept than can be looked at", () => {
  const model = modelWith({});
  for (let number = 0; number < 1100; number += 1) told(model, [], [calls({ method: `/s/${number}`, errors: { ABORTED: 1 } })]);
  assert.equal(page.errorRows(model.callStats, "", "").length, 1000);
});

test("a host of two channels and two clusters is one host with the sessions of all", () => {
  const model = modelWith({
    endpoints: { a: endpoint({ cluster: "blue" }), b: endpoint({ cluster: "green" }), c: endpoint({ channel: "other", health: "DRAINING" }) },
    sessions: { "shop/1": session(), "other/1": session({ channel: "other" }) },
  });
  const [{ row }] = page.hostRows(model, "", 0);
  assert.deepEqual([plain(row.channels), plain(row.clusters), row.health, row.sessions], [["other", "shop"], ["blue", "green"], "DRAINING", 2]);
  assert.equal(page.vitals(model, "", 0).hosts, 1);
  assert.equal(page.hostRows(model, "shop", 0)[0].row.sessions, 1);
});

test("a session on a host's second address is on that host", () => {
  const model = modelWith({ endpoints: { a: endpoint({ addresses: ["10.0.0.1:1", "[::1]:1"] }) }, sessions: { "shop/1": session({ host: "[::1]:1" }) } });
  assert.deepEqual(plain(page.hostRows(model, "", 0).map(({ key, row }) => [key, row.sessions])), [["10.0.0.1:1", 1]]);
});

test("a draining host is on the board once, with what is left on it", () => {
  const drains = endpoint({ health: "DRAINING" });
  const model = modelWith({ endpoints: { a: drains, b: { ...drains, channel: "other" } }, sessions: { "shop/1": session() } });
  const [host] = page.drainedHosts(model, "");
  assert.deepEqual([host.left, [...host.channels].length, page.vitals(model, "", 0).draining], [1, 2, 1]);
});

test("an xDS client that channels share is a part of each", () => {
  const channel = (client) => ({ target: "", state: "READY", client, outages: [], warnings: [], calls: 0, failed: 0, open: 0, error: "" });
  const model = modelWith({
    channels: { a: channel("a"), b: channel("a"), c: channel("c") },
    resources: { "a/CDS/x": { channel: "a", state: "acked" } },
    connections: { "a/1": { channel: "a", kind: "ads", calls: 0 }, "a/2": { channel: "a", kind: "data", calls: 0 } },
  });
  const of = (section, channel) => page.rowsOf(model, section, channel).map(({ key }) => key);
  assert.deepEqual([of("resources", "b"), of("connections", "b"), of("resources", "c")].map(plain), [["a/CDS/x"], ["a/1"], []]);
});

test("a control plane that two clients have lost is one outage, since the first lost it", () => {
  const row = (at) => ({ state: "READY", outages: [`server plane:1: cannot reach the xDS server since 2026-01-01T00:00:0${at}Z: refused`] });
  const model = modelWith({ channels: { a: row(2), b: row(1) } });
  const [outage, ...more] = page.outages(model);
  assert.deepEqual([plain(outage.channels), outage.text.includes("00:01Z"), more.length], [["a", "b"], true, 0]);
});

test("what is said of an outage is not a warning as well", () => {
  const outage = "server plane:1: cannot be reached";
  const channel = { target: "", state: "READY", calls: 0, failed: 0, open: 0, error: "", outages: [outage], warnings: [`the control plane is lost; ${outage}`, "other"] };
  assert.deepEqual(plain(page.vitals(modelWith({ channels: { a: channel } }), "", 0).warnings), ["other"]);
});

test("the differences of two texts are the lines that were taken away and added", () => {
  const lines = page.diffLines("a\nb\nc\nd", "a\nx\nc\nd\ne").map(({ sign, text }) => `${sign}${text}`);
  assert.deepEqual(plain(lines), [" a", "-b", "+x", " c", " d", "+e"]);
  assert.deepEqual(plain(page.diffLines("a", "a").map(({ sign }) => sign)), [" "]);
});

test("of many lines that are the same only those near a difference are shown", () => {
  const text = (middle) => [...Array(10).fill("same"), middle, ...Array(10).fill("same")].join("\n");
  const shown = page.withoutSame(page.diffLines(text("a"), text("b")));
  assert.deepEqual(plain(shown.map(({ sign }) => sign).join("")), "…   -+   …");
  assert.equal(shown[0].text, "7 lines unchanged");
});

test("two long texts are compared at their ends, and replaced in between", () => {
  const text = (word) => ["first", ...Array.from({ length: 4000 }, (_, number) => `${word} ${number}`), "last"].join("\n");
  const lines = page.diffLines(text("a"), text("b"));
  assert.deepEqual([lines.length, lines[0].sign, lines.at(-1).sign], [8002, " ", " "]);
});

test("names that are too long keep the part in which they differ", () => {
  const name = (version) => `outbound|443||cart-${version}.shop.svc.cluster.local`;
  const labels = page.labelsOf([name("v1"), name("v2"), "checkout"]);
  assert.deepEqual([labels.get(name("v1")).includes("cart-v1"), labels.get(name("v2")).includes("cart-v2"), labels.get("checkout")], [true, true, "checkout"]);
  assert.ok([...labels.values()].every((label) => label.length <= 30));
});

test("a folded box shows its first policy, and counts those below", () => {
  const { boxes } = page.layoutTree(tree, () => 0, () => true, { folds: new Map([["b", true]]) });
  assert.deepEqual(plain(boxes.map(({ lines, hidden }) => [lines, hidden])), [[["r"], 0], [["b"], 3], [["g"], 0]]);
});

test("a large tree is folded below its root, which is at the top", () => {
  const children = Array.from({ length: 12 }, (_, number) => `c${number}`);
  const many = new Map([["r", node("root", null, children)], ...children.flatMap((key) => [[key, node(`root/${key}`, "r", [`${key}x`])], [`${key}x`, node(`root/${key}/x`, key, [])]])]);
  const { boxes } = page.layoutTree(many, () => 0);
  assert.deepEqual([boxes[0].y, boxes[0].folded, boxes.slice(1).every(({ folded }) => folded)], [0, false, true]);
  assert.ok(page.layoutTree(many, () => 0, () => true, { unfolded: true }).boxes.every(({ folded }) => !folded));
});

test("in a narrow window the boxes stand one below the other", () => {
  const { boxes, width } = page.layoutTree(tree, () => 0, () => true, { narrow: true });
  boxes.slice(1).forEach((box, at) => assert.ok(box.y >= boxes[at].y + boxes[at].height));
  assert.ok(width < 340);
});

test("the keys of two programs are told apart, and lead back to each", () => {
  const message = { snapshot: { channels: { shop: { client: "shop" } }, nodes: { "shop/a": { channel: "shop", parent: null, children: ["shop/a/b"] } } }, events: [{ channel: "shop", session: "shop/1" }] };
  const made = page.ofProgram("cart", message);
  assert.deepEqual(plain(made.snapshot), { channels: { "cart: shop": { client: "cart: shop" } }, nodes: { "cart: shop/a": { channel: "cart: shop", parent: null, children: ["cart: shop/a/b"] } } });
  assert.deepEqual(plain(made.events), [{ channel: "cart: shop", session: "cart: shop/1" }]);
  assert.deepEqual(plain(page.programOf(["", "car", "cart"], "cart: shop/CDS/x")), { program: "cart", key: "shop/CDS/x" });
  assert.equal(page.ofProgram("", message), message);
});

test("a snapshot of one program leaves the rows of the others", () => {
  const model = page.newModel();
  const snapshot = (key) => ({ number: 1, snapshot: { sessions: { [key]: session() } } });
  for (const [program, key] of [["a", "x/1"], ["b", "x/1"], ["a", "x/2"]]) page.take(model, page.ofProgram(program, snapshot(key)), 0, program);
  assert.deepEqual(keys(model, "sessions").sort(), ["a: x/2", "b: x/1"]);
});

// A link whose sockets are ours: `happens` tells the last one of an event.
function fakeLink() {
  const states = [];
  let socket = null;
  class FakeWebSocket {
    constructor() {
      socket = this;
      this.handlers = {};
    }
    addEventListener(name, handler) {
      this.handlers[name] = handler;
    }
  }
  Object.assign(page, { URL, WebSocket: FakeWebSocket, location: { href: "http://127.0.0.1/" }, setTimeout: () => {} });
  const link = new page.FeedLink({ token: "", program: 0, message: () => {}, state: (...told) => states.push(told) });
  link.open();
  return { link, states, happens: (name, event = {}) => socket.handlers[name]?.(event) };
}

const data = (message) => ({ data: JSON.stringify(message) });

test("a reason that is longer than a close reason is shown as a whole", () => {
  const { states, happens } = fakeLink();
  happens("open");
  happens("message", data({ lost: "cart.sock: Connection refused; does the program run?" }));
  happens("close", { reason: "cart.sock: Conn" });
  assert.deepEqual(states.at(-1), ["lost", "cart.sock: Connection refused; does the program run?"]);
});

test("the reason of one socket is not shown for the next one", () => {
  const { link, states, happens } = fakeLink();
  happens("message", data({ lost: "Connection refused" }));
  happens("close", { reason: "Connection" });
  link.open();
  happens("close", { reason: "the program has ended" });
  assert.deepEqual(states.at(-1), ["lost", "the program has ended"]);
});

test("a program is live with its first message, for a relay opens the socket before it has the program", () => {
  const { link, states, happens } = fakeLink();
  happens("open");
  happens("message", data({ lost: "Connection refused" }));
  assert.deepEqual(states, [["connecting", ""]]);
  happens("close", { reason: "" });
  link.open();
  happens("open");
  happens("message", data({ hello: {} }));
  happens("message", data({ changes: [] }));
  assert.deepEqual(states.map(([state]) => state), ["connecting", "lost", "live"]);
});
