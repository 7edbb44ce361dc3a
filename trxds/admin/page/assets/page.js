// The page put together: tabs, the line of vital signs, one painting for each frame, and what is said aloud.

const VIEWS = [
  { id: "sessions", title: "Sessions", make: sessionsView, badge: (model, channel) => count(rowsOf(model, "sessions", channel).length) },
  { id: "tree", title: "Tree", make: treeView, badge: (model, channel) => count(rowsOf(model, "nodes", channel).length) },
  { id: "endpoints", title: "Endpoints", make: endpointsView, badge: (model, channel) => count(rowsOf(model, "endpoints", channel).length) },
  { id: "resources", title: "Resources", make: resourcesView, badge: resourcesBadge },
  { id: "ads", title: "ADS log", make: adsView, badge: (model) => (model.nacks > 0 ? plural(model.nacks, "NACK") : "") },
  { id: "picks", title: "Picks", make: picksView, badge: () => "" },
  { id: "connections", title: "Connections", make: connectionsView, badge: (model, channel) => count(rowsOf(model, "connections", channel).length) },
  { id: "timeline", title: "Timeline", make: timelineView, badge: (model, channel) => (eventsOf(model.marks, channel).length ? plural(eventsOf(model.marks, channel).length, "mark") : "") },
];
const SAID_EVERY = 5; // seconds between two announcements

function resourcesBadge(model, channel) {
  const { troubled } = vitals(model, channel, 0);
  return troubled > 0 ? `${count(troubled)} bad` : count(rowsOf(model, "resources", channel).length);
}

function startPage() {
  const byId = (id) => document.getElementById(id);
  const [panel, channelBox, freeze, link] = ["panel", "channel", "freeze", "link"].map(byId);
  const app = {
    model: newModel(),
    skew: 0, // seconds that the program's clock is ahead of ours
    frozenAt: null,
    now: () => app.frozenAt ?? Date.now() / 1000 + app.skew,
    repaint: () => schedule(),
    send: (message) => feed.send(message),
  };
  const tabs = makeTabs(byId("tabs"), (view) => show(view));
  const made = new Map(); // id of a view -> {element, paint}
  let current = null;
  let scheduled = false;
  let unshown = 0; // messages that came since the last painting
  let channel = "";
  let saidAt = -Infinity;
  let held = null; // while frozen, what keeps coming

  function show(view) {
    if (!made.has(view.id)) made.set(view.id, view.make(app));
    current = view;
    panel.replaceChildren(made.get(view.id).element);
    set(panel, { "aria-labelledby": `tab-${view.id}` });
    history.replaceState(null, "", `#${view.id}`);
    document.title = `${view.title} · trxds live`;
    paint();
  }

  function schedule() {
    if (scheduled) return;
    scheduled = true;
    // A page that nobody sees draws nothing, and still says that it got what it got.
    if (document.hidden) setTimeout(paint, 0);
    else requestAnimationFrame(paint);
  }

  function paint() {
    scheduled = false;
    if (current !== null && !document.hidden) {
      options(channelBox, ["", ...app.model.sections.channels.keys()]);
      channelBox.firstElementChild.textContent = "all";
      channelBox.parentElement.hidden = app.model.sections.channels.size < 2;
      paintVitals(byId("vitals"), vitals(app.model, channel, app.now()), app.now());
      tabs.paint(app.model, channel);
      made.get(current.id).paint(app.model, channel, app.now());
    }
    for (; unshown > 0; unshown -= 1) feed.send({ shown: 1 });
  }

  function received(message) {
    if (message.hello) return hello(message.hello);
    if (message.explained) return made.get("picks")?.explained(message.explained);
    unshown += 1;
    take(held ?? app.model, message, Date.now() / 1000 + app.skew);
    schedule();
  }

  function hello(told) {
    app.skew = told.now - Date.now() / 1000;
    write(byId("program"), `${told.program}, process ${told.pid}, trxds ${told.version}`);
  }

  function linkState(state, why) {
    const words = { connecting: "connecting", live: "live", lost: "not connected" };
    set(link, { "data-tone": { connecting: "busy", live: "good", lost: "bad" }[state], title: why });
    write(link, state === "lost" ? `${words[state]}: ${why}` : words[state]);
    if (state === "lost") app.model.news.push({ about: "channel", text: "the page has lost the program" });
    document.body.dataset.link = state;
  }

  function toggleFreeze() {
    if (app.frozenAt === null) {
      app.frozenAt = app.now();
      held = structuredClone(app.model);
      held.pickOf = new Map(held.picks.filter((pick) => pick.status === "").map((pick) => [callKey(pick), pick]));
    } else {
      app.frozenAt = null;
      Object.assign(app.model, held);
      held = null;
    }
    set(freeze, { "aria-pressed": String(app.frozenAt !== null) });
    write(freeze, app.frozenAt === null ? "Freeze" : `Frozen at ${clock(app.frozenAt)}`);
    schedule();
  }

  // Aloud at most every few seconds, and all that came meanwhile in one sentence.
  function say() {
    if (app.model.news.length === 0 || app.now() - saidAt < SAID_EVERY) return;
    saidAt = app.now();
    write(byId("said"), announcement(app.model.news.splice(0)));
  }

  const feed = new FeedLink({ token: takeToken(), message: received, state: linkState });
  freeze.addEventListener("click", toggleFreeze);
  channelBox.addEventListener("change", () => {
    channel = channelBox.value;
    schedule();
  });
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    panel.focus();
  });
  document.addEventListener("visibilitychange", schedule);
  addEventListener("resize", schedule);
  setInterval(() => {
    beat(held ?? app.model, Date.now() / 1000 + app.skew);
    say();
    schedule();
  }, 1000);
  tabs.open(VIEWS.find(({ id }) => `#${id}` === location.hash) ?? VIEWS[0]);
  feed.open();
}

// Tabs by the pattern that screen readers know: one of them is in the order of Tab, the arrow keys go to the others.
function makeTabs(list, open) {
  const badges = new Map();
  const buttons = VIEWS.map((view) => {
    const badge = el("span", { class: "badge" });
    badges.set(view.id, badge);
    const attributes = { id: `tab-${view.id}`, role: "tab", "aria-controls": "panel", "aria-selected": "false", tabindex: "-1" };
    const made = el("button", { type: "button", ...attributes }, el("span", {}, view.title), badge);
    made.addEventListener("click", () => choose(view));
    return made;
  });
  list.append(...buttons);

  function choose(view) {
    VIEWS.forEach((each, index) => set(buttons[index], { "aria-selected": String(each === view), tabindex: each === view ? "0" : "-1" }));
    open(view);
  }

  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const steps = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 };
    if (at < 0 || !(event.key in steps)) return;
    event.preventDefault();
    const next = (steps[event.key] + buttons.length) % buttons.length;
    buttons[next].focus();
    choose(VIEWS[next]);
  });

  return {
    open: choose,
    paint(model, channel) {
      for (const view of VIEWS) write(badges.get(view.id), view.badge(model, channel));
    },
  };
}

function paintVitals(list, told, now) {
  const signs = [
    ["Channel", told.state ? [told.state.replaceAll("_", " "), toneOf(told.state)] : ["–", null], told.error],
    ["Requests", [perSecond(told.requests), null], `${plural(told.open, "call")} open`],
    ["Errors", [perSecond(told.failed), told.failed > 0 ? "bad" : null], ""],
    ["Latency p50", [millis(told.p50), null], `p99 ${millis(told.p99)}`],
    ["Sessions", [count(told.sessions), null], told.movedLately ? `${count(told.movedLately)} moved lately` : "none moved lately"],
    ...(told.warnings.length > 0 ? [["Warnings", [plural(told.warnings.length, "warning"), "warn"], told.warnings.join("\n")]] : []),
    ["Draining", [plural(told.draining, "host"), told.draining > 0 ? "warn" : null], ""],
    ["Configuration", told.troubled > 0 ? [`${plural(told.troubled, "resource")} bad`, "bad"] : [told.mark ? ago(now - told.mark.time) : "as it was", null], told.mark?.text ?? ""],
  ];
  const said = JSON.stringify(signs);
  if (list.dataset.said === said) return;
  list.dataset.said = said;
  list.replaceChildren(
    ...signs.map(([name, [value, tone], more]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, tone ? chip(value, tone) : value), el("dd", { class: "quiet", title: more }, more)),
    ),
  );
}

startPage();
