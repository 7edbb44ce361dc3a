// The xDS resources, and the text of one of them with what changed in it.

const RESOURCE_ORDER = { LDS: 0, RDS: 1, CDS: 2, EDS: 3 };
const ROLES = { before: "before", "in use": "in use", refused: "refused" };
const MOST_LINES = 3000; // drawn of one text

function resourcesView(app) {
  const filter = filterBox("Filter resources", app.repaint);
  const detail = resourceDetail(app);
  const badFirst = (row) => (toneOf(row.state) === "bad" ? 0 : toneOf(row.state) === "good" ? 2 : 1);
  const placeOf = (row) => `${RESOURCE_ORDER[row.type] ?? 9} ${row.name}`;
  const table = new Table({
    label: "Resources",
    empty: "No resource is asked for: no channel has a control plane.",
    order: { column: "state", down: false },
    rowClass: (row) => (toneOf(row.state) === "bad" ? "marked" : ""),
    columns: [
      { key: "type", title: "Type", cell: (row) => row.type, sort: placeOf },
      {
        key: "name",
        title: "Name",
        said: (row) => row.name,
        cell: (row, key) => button(mono(row.name), () => app.go({ open: key }), { class: "small named", "aria-label": `Show ${row.type} ${row.name}` }),
        sort: (row) => row.name,
      },
      channelColumn(app),
      {
        key: "state",
        title: "State",
        said: (row) => row.state,
        cell: (row) => chip(row.state.replaceAll("_", " "), toneOf(row.state)),
        sort: (row) => `${badFirst(row)} ${placeOf(row)}`,
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
    filter,
    element: el("div", {}, viewHead("Resources", "What the control plane gave, and what was refused. Trouble stands first; a name opens the text.", filter), detail.element, table.element),
    paint(model, channel) {
      detail.paint(model, app.place.open);
      table.paint(matching(rowsOf(model, "resources", channel), filter.value), app.isOneChannel());
    },
    answered: detail.answered,
  };
}

// The text of the resource that the address names, asked for anew when another version of it comes.
function resourceDetail(app) {
  const title = el("h3");
  const choices = el("div", { class: "choices", role: "group", "aria-label": "What is shown" });
  const text = el("div", { class: "diff", tabindex: "0", role: "region", "aria-label": "Text of the resource" });
  const close = button("Close", () => app.go({ open: "" }), { class: "small" });
  const element = el("section", { class: "detail", "aria-label": "Resource", hidden: true }, el("div", { class: "detailhead" }, title, choices, close), text);
  let asked = ""; // which resource, in which state
  let number = 0;
  let versions = [];
  let chosen = null; // the choice of the reader, until another resource is opened

  function show() {
    const pairs = comparisons(versions);
    const current = pairs.find(({ name }) => name === chosen) ?? pairs[0];
    choices.replaceChildren(
      ...pairs.map(({ name }) => button(name, () => { chosen = name; show(); }, { class: "choice", "aria-pressed": String(name === current?.name) })),
    );
    text.replaceChildren(...(current ? linesOf(current) : [quiet("There is no text: nothing of it has come yet.")]));
  }

  return {
    element,
    paint(model, key) {
      const row = key ? model.sections.resources.get(key) : undefined;
      element.hidden = !key;
      const state = row ? `${key} ${row.state} ${row.version} ${row.since}` : key;
      if (state === asked) return;
      if (!asked.startsWith(`${key} `)) {
        chosen = null;
        versions = [];
        text.replaceChildren(quiet(row || !key ? "asked …" : "There is no such resource here."));
        choices.replaceChildren();
      }
      write(title, row ? `${row.type} ${row.name}` : key);
      if (!row) {
        asked = state;
        return;
      }
      number += 1;
      // One question at a time; the next painting asks again.
      if (app.ask("resource", key, { id: number })) asked = state;
    },
    answered(told) {
      if (told.id !== number) return;
      if (told.error) {
        if (told.error.startsWith("one question")) asked = "";
        text.replaceChildren(el("p", { class: "trouble" }, told.error));
        return;
      }
      versions = told.versions;
      show();
    },
  };
}

// What can be shown of these versions: the differences first.
function comparisons(versions) {
  const of = (role) => versions.find((each) => each.role === role);
  const [before, inUse, refused] = ["before", "in use", "refused"].map(of);
  const pairs = [];
  const pair = (name, from, to) => {
    if (from && to && !from.note && !to.note) pairs.push({ name, from, to });
  };
  pair("Refused: differences to the one in use", inUse, refused);
  pair("Differences to the version before", before, inUse);
  for (const each of [inUse, refused, before]) if (each) pairs.push({ name: `Text ${ROLES[each.role]}`, from: null, to: each });
  return pairs;
}

function linesOf({ from, to }) {
  const said = (version) => `version ${version.version || "without a number"}, ${clock(version.time)}`;
  const head = quiet(from === null ? `${said(to)}${to.server && `, from ${to.server}`}` : `${said(from)} → ${said(to)}`);
  if (to.note) return [head, el("p", {}, to.note)];
  const lines = from === null ? to.text.split("\n").map((text) => ({ sign: " ", text })) : withoutSame(diffLines(from.text, to.text));
  if (lines.every(({ sign }) => sign === "…")) return [head, el("p", {}, "The two have the same content.")];
  const drawn = lines.slice(0, MOST_LINES).map(({ sign, text }) => el("li", { "data-sign": sign }, el("span", { class: "sign" }, SIGNS[sign]), text));
  const more = lines.length > MOST_LINES ? [quiet(`${count(lines.length - MOST_LINES)} more lines`)] : [];
  return [head, el("ol", { class: "mono" }, ...drawn), ...more];
}

const SIGNS = { " ": " ", "-": "−", "+": "+", "…": "⋯" };
