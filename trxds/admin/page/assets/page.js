// The page put together: the address, tabs, the alarms, the line of vital signs, one painting for each frame, and what
// is said aloud.

const sizeOf = (section) => (model, channel) => count(rowsOf(model, section, channel).length);
const VIEWS = [
  { id: "channels", title: "Channels", make: channelsView, badge: sizeOf("channels") },
  { id: "sessions", title: "Sessions", make: sessionsView, badge: sizeOf("sessions") },
  { id: "hosts", title: "Hosts", make: hostsView, badge: (model, channel, now) => count(now.hosts) },
  { id: "errors", title: "Errors", make: errorsView, badge: errorsBadge },
  { id: "tree", title: "Tree", make: treeView, badge: sizeOf("nodes") },
  { id: "endpoints", title: "Endpoints", make: endpointsView, badge: sizeOf("endpoints") },
  { id: "resources", title: "Resources", make: resourcesView, badge: resourcesBadge },
  { id: "ads", title: "ADS log", make: adsView, badge: (model) => (model.nacks > 0 ? plural(model.nacks, "NACK") : "") },
  { id: "picks", title: "Picks", make: picksView, badge: () => "" },
  { id: "connections", title: "Connections", make: connectionsView, badge: sizeOf("connections") },
  { id: "timeline", title: "Timeline", make: timelineView, badge: (model, channel) => (clientEventsOf(model, model.marks, channel).length ? plural(clientEventsOf(model, model.marks, channel).length, "mark") : "") },
];
const SAID_EVERY = 5; // seconds between two announcements
const HUES = 6; // colours of channels, in style.css
const TYPED_FOR = 400; // milliseconds of silence after which a filter's text goes into the address

function resourcesBadge(model, channel, { troubled }) {
  return troubled > 0 ? `${count(troubled)} bad` : count(rowsOf(model, "resources", channel).length);
}

function errorsBadge(model, channel) {
  const errors = errorRows(model.callStats, channel, "").reduce((sum, { row }) => sum + row.count, 0);
  return errors > 0 ? count(errors) : "";
}

function startPage() {
  const byId = (id) => document.getElementById(id);
  const [panel, channelBox, freeze] = ["panel", "channel", "freeze"].map(byId);
  const token = takeToken();
  const viewIds = VIEWS.map(({ id }) => id);
  const app = {
    model: newModel(),
    place: placeFrom(location.hash, viewIds),
    skew: 0, // seconds that the program's clock is ahead of ours
    frozenAt: null,
    now: () => app.frozenAt ?? Date.now() / 1000 + app.skew,
    repaint: () => schedule(),
    go: (change) => go({ ...app.place, find: made.get(current.id).filter?.value ?? "", ...change }),
    isOneChannel: () => app.place.channel !== "" || app.model.sections.channels.size < 2,
    hueOf: (channel) => Math.max(0, [...app.model.sections.channels.keys()].indexOf(channel)) % HUES,
    // A question about something whose key it is, to the program that has it.
    ask(kind, key, question) {
      const { program, key: its } = programOf([...feeds.keys()], key);
      const feed = feeds.get(program);
      // By `trxds live` a page may show a program of an older version.
      if (feed?.hello && !(feed.hello.answers ?? ["explain"]).includes(kind)) {
        answered(kind, { id: question.id, error: `trxds ${feed.hello.version} in ${feed.hello.program} does not answer this` });
        return true;
      }
      const session = question.session && { session: programOf([program], question.session).key };
      const about = kind === "resource" ? { key: its } : { channel: its };
      return feed?.link.send({ [kind]: { ...question, ...about, ...session } }) ?? false;
    },
  };
  const feeds = new Map(); // by name: {link, state, why, since, unshown, hello}
  const tabs = makeTabs(byId("tabs"), (view, pushes) => go({ ...app.place, view: view.id, find: "", open: "", by: "" }, pushes));
  const made = new Map(); // id of a view -> {element, paint}
  let current = null;
  let scheduled = false;
  let typed = null; // the timer of a filter's text on its way into the address
  let saidAt = -Infinity;
  let held = null; // while frozen, what keeps coming

  // -- the address: what is shown has one, so that it can be sent to somebody, and Back goes back

  function go(place, pushes = true) {
    clearTimeout(typed);
    const hash = hashOf(place);
    if (hash !== hashOf(app.place) || location.hash === "") history[pushes && location.hash !== "" ? "pushState" : "replaceState"](null, "", hash);
    arrive(place);
  }

  function arrive(place) {
    const view = VIEWS.find(({ id }) => id === place.view);
    if (!made.has(view.id)) made.set(view.id, watched(view.make(app)));
    const { element, filter } = made.get(view.id);
    app.place = place;
    if (filter && filter.value !== place.find && document.activeElement !== filter) filter.value = place.find;
    if (current !== view) panel.replaceChildren(element);
    current = view;
    set(panel, { "aria-labelledby": `tab-${view.id}` });
    tabs.mark(view);
    paint();
  }

  function watched(view) {
    view.filter?.addEventListener("input", () => {
      clearTimeout(typed);
      typed = setTimeout(() => go({ ...app.place, find: view.filter.value }, false), TYPED_FOR);
    });
    return view;
  }

  // -- painting

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
      const { channel } = app.place;
      options(channelBox, ["", ...new Set([...app.model.sections.channels.keys(), ...(channel ? [channel] : [])])]);
      channelBox.firstElementChild.textContent = "all";
      channelBox.value = channel;
      channelBox.parentElement.hidden = app.model.sections.channels.size < 2 && channel === "";
      const alarms = alarmsOf(app.model, feeds);
      paintAlarms(byId("alarms"), alarms);
      document.title = `${alarms.length > 0 ? "▲ " : ""}${current.title}${channel && `, ${channel}`} · trxds live`;
      const signs = vitals(app.model, channel, app.now());
      paintVitals(byId("vitals"), signs, app.now());
      tabs.paint(app.model, channel, signs);
      made.get(current.id).paint(app.model, channel, app.now());
    }
    for (const feed of feeds.values()) for (; feed.unshown > 0; feed.unshown -= 1) feed.link.send({ shown: 1 });
  }

  // -- the programs

  function join(name, program) {
    const feed = { name, state: "connecting", why: "", since: null, unshown: 0, hello: null };
    feed.link = new FeedLink({ token, program, message: (message) => received(feed, message), state: (state, why) => linkState(feed, state, why) });
    feeds.set(name, feed);
    feed.link.open();
  }

  function received(feed, message) {
    if (message.programs) return relayed(feed, message.programs);
    if (message.hello) return hello(feed, message.hello);
    if (message.explained) return answered("explain", message.explained);
    if (message.resource) return answered("resource", message.resource);
    feed.unshown += 1;
    take(held ?? app.model, ofProgram(feed.name, message), Date.now() / 1000 + app.skew, feed.name);
    schedule();
  }

  function answered(kind, told) {
    if (kind === "explain") made.get("picks")?.explained(told);
    else made.get("resources")?.answered(told);
  }

  // What served the page is no program, and reads several of them for us.
  function relayed(feed, names) {
    feed.isRelay = true;
    names.forEach((name, number) => {
      if (!feeds.has(name)) join(name, number);
    });
  }

  function hello(feed, told) {
    feed.hello = told;
    if (feed.name === "") app.skew = told.now - Date.now() / 1000;
    const programs = [...feeds.values()].filter((each) => each.hello !== null);
    write(byId("program"), programs.map(({ name, hello }) => `${name && `${name}: `}${hello.program}, process ${hello.pid}, trxds ${hello.version}`).join(" · "));
  }

  function linkState(feed, state, why) {
    if (state === "lost" && feed.state !== "lost") {
      feed.since = Date.now() / 1000;
      app.model.news.push({ about: "channel", text: `the page has lost the program${feed.name && ` ${feed.name}`}` });
    }
    Object.assign(feed, { state, why });
    const states = [...feeds.values()].map((each) => each.state);
    const worst = ["lost", "connecting", "live"].find((each) => states.includes(each));
    const link = byId("link");
    set(link, { "data-tone": { connecting: "busy", live: "good", lost: "bad" }[worst] });
    write(link, { connecting: "connecting", live: "live", lost: "not connected" }[worst]);
    document.body.dataset.link = worst;
    schedule();
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

  freeze.addEventListener("click", toggleFreeze);
  channelBox.addEventListener("change", () => app.go({ channel: channelBox.value }));
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    panel.focus();
  });
  addEventListener("popstate", () => {
    clearTimeout(typed);
    document.activeElement?.blur?.();
    arrive(placeFrom(location.hash, viewIds));
  });
  document.addEventListener("visibilitychange", schedule);
  addEventListener("resize", schedule);
  setInterval(() => {
    beat(held ?? app.model, Date.now() / 1000 + app.skew);
    say();
    schedule();
  }, 1000);
  go(app.place);
  join("", null);
}

// What nobody may overlook: a program or a control plane that is lost.
function alarmsOf(model, feeds) {
  const lost = [...feeds.values()].filter(({ state }) => state === "lost").map(({ name, why, since }) => ({
    title: name ? `Not connected to ${name}` : "Not connected",
    text: `since ${clock(since)}: ${why}. What is shown of it is from then.`,
  }));
  const planes = outages(model).map(({ text, channels }) => ({
    title: "Control plane lost",
    text: `${text}. ${channels.length === 1 ? `Channel ${channels[0]} uses` : `Channels ${channels.join(", ")} use`} what it sent before.`,
  }));
  return [...lost, ...planes];
}

function paintAlarms(element, alarms) {
  const said = JSON.stringify(alarms);
  if (element.dataset.said === said) return;
  element.dataset.said = said;
  element.replaceChildren(...alarms.map(({ title, text }) => el("p", {}, chip(title, "bad"), " ", text)));
}

// Tabs by the pattern that screen readers know: one of them is in the order of Tab, the arrow keys go to the others.
function makeTabs(list, open) {
  const badges = new Map();
  const buttons = VIEWS.map((view) => {
    const badge = el("span", { class: "badge" });
    badges.set(view.id, badge);
    const attributes = { id: `tab-${view.id}`, role: "tab", "aria-controls": "panel", "aria-selected": "false", tabindex: "-1" };
    const made = el("button", { type: "button", ...attributes }, el("span", {}, view.title), badge);
    made.addEventListener("click", () => open(view, true));
    return made;
  });
  list.append(...buttons);

  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const steps = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 };
    if (at < 0 || !(event.key in steps)) return;
    event.preventDefault();
    const next = (steps[event.key] + buttons.length) % buttons.length;
    buttons[next].focus();
    open(VIEWS[next], false);
  });

  return {
    mark(view) {
      VIEWS.forEach((each, index) => set(buttons[index], { "aria-selected": String(each === view), tabindex: each === view ? "0" : "-1" }));
      const chosen = buttons[VIEWS.indexOf(view)];
      const [left, right] = [chosen.offsetLeft - list.offsetLeft, chosen.offsetLeft - list.offsetLeft + chosen.offsetWidth];
      if (left < list.scrollLeft || right > list.scrollLeft + list.clientWidth) list.scrollLeft = left - 24;
    },
    paint(model, channel, signs) {
      for (const view of VIEWS) write(badges.get(view.id), view.badge(model, channel, signs));
    },
  };
}

function paintVitals(list, told, now) {
  const signs = [
    channelSign(told),
    ["Requests", [perSecond(told.requests), null], `${plural(told.open, "call")} open`],
    ["Errors", [perSecond(told.failed), told.failed > 0 ? "bad" : null], ""],
    ["Latency p50", [millis(told.p50), null], `p99 ${millis(told.p99)}`, told.states.length > 1 ? "of the slowest channel" : ""],
    ["Hosts", [count(told.hosts), null], ""],
    ["Sessions", [count(told.sessions), null], told.movedLately ? `${count(told.movedLately)} moved lately` : "none moved lately"],
    ...(told.warnings.length > 0 ? [["Warnings", [plural(told.warnings.length, "warning"), "warn"], told.warnings.join("\n")]] : []),
    ["Draining", [plural(told.draining, "host"), told.draining > 0 ? "warn" : null], ""],
    ["Configuration", told.troubled > 0 ? [`${plural(told.troubled, "resource")} bad`, "bad"] : [told.mark ? ago(now - told.mark.time) : "as it was", null], told.mark?.text ?? ""],
  ];
  const said = JSON.stringify(signs);
  if (list.dataset.said === said) return;
  list.dataset.said = said;
  list.replaceChildren(
    ...signs.map(([name, [value, tone], more, title = more]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, tone ? chip(value, tone) : value), el("dd", { class: "quiet", title }, more)),
    ),
  );
}

function channelSign({ state, states, notReady, error }) {
  if (states.length < 2) return ["Channel", state ? [state.replaceAll("_", " "), toneOf(state)] : ["–", null], error];
  return ["Channels", [`${states.length - notReady.length} of ${states.length}`, toneOf(state)], notReady.join(", ") || error || "READY"];
}

startPage();
