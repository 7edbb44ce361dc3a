// The load balancing tree, drawn; the arrow keys walk through it, and what a policy says of itself stands beside it.

function treeView(app) {
  const filter = filterBox("Filter the tree by cluster or policy", app.repaint);
  const fold = button("Fold all", () => foldAll(true));
  const unfold = button("Unfold all", () => foldAll(false));
  const drawing = svg("svg", { role: "tree", "aria-label": "Load balancing tree" });
  const details = el("div", { class: "details", "aria-live": "polite" });
  const empty = el("p", { class: "empty" }, "No tree: the channel has no configuration yet.");
  const stage = el("div", { class: "stage" }, drawing, empty);
  const drawn = { shape: "", nodes: new Map(), edges: [] };
  let layout = layoutTree(new Map(), () => 0);
  let chosen = null;
  let focusNext = false;
  const folds = new Map(); // key of a box -> whether the reader has folded it

  function choose(key, focus) {
    chosen = key;
    app.repaint();
    if (focus) drawn.nodes.get(key)?.group.focus();
  }

  function setFold(key, folded) {
    folds.set(key, folded);
    chosen = key;
    focusNext = true;
    app.repaint();
  }

  function foldAll(folded) {
    for (const [key, row] of app.model.sections.nodes) if (row.parent !== null) folds.set(key, folded);
    app.repaint();
  }

  drawing.addEventListener("keydown", (event) => {
    const box = layout.boxes.find(({ key, foldable }) => key === chosen && foldable);
    const folded = { ArrowRight: false, ArrowLeft: true, Enter: !box?.folded, " ": !box?.folded }[event.key];
    if (box !== undefined && folded !== undefined && folded !== box.folded) {
      event.preventDefault();
      setFold(box.key, folded);
      return;
    }
    const next = stepInTree(layout, chosen, event.key);
    if (next === null) return;
    event.preventDefault();
    choose(next, true);
  });

  function redraw(nodes) {
    drawn.nodes.clear();
    drawn.edges = layout.edges.map((edge) => svg("path", { class: edge.warm ? "edge warm" : "edge", d: edgePath(edge) }));
    const labels = boxLabels(layout, nodes);
    const boxes = layout.boxes.map((box) => drawBox(box, labels.get(box.key), nodes, drawn.nodes, choose, setFold));
    drawing.replaceChildren(...drawn.edges, ...boxes);
    set(drawing, { width: layout.width + 2, height: layout.height + 2, viewBox: `-1 -1 ${layout.width + 2} ${layout.height + 2}` });
  }

  return {
    filter,
    element: el(
      "div",
      {},
      viewHead("Load balancing tree", "Policy by policy, from the channel to its leaves; a line is as thick as its traffic.", unfold, fold, filter),
      stage,
      details,
    ),
    paint(model, channel) {
      const nodes = new Map(rowsOf(model, "nodes", channel).map(({ key, row }) => [key, row]));
      const rate = (key) => rateOf(model, "nodes", key);
      const text = filter.value.trim().toLowerCase();
      const found = text === "" ? null : branchesWith(nodes, text);
      const shown = found === null ? nodes : new Map([...nodes].filter(([key]) => found.has(key)));
      layout = layoutTree(shown, rate, (key) => found === null || found.has(key), { folds, narrow: stage.clientWidth < 700, unfolded: found !== null });
      if (!readingOrder(layout).includes(chosen)) chosen = layout.boxes[0]?.key ?? null;
      empty.hidden = layout.boxes.length > 0;
      const shape = shapeOf(layout, shown);
      if (shape !== drawn.shape) {
        const focused = focusNext || drawing.contains(document.activeElement);
        focusNext = false;
        redraw(shown);
        drawn.shape = shape;
        if (focused) drawn.nodes.get(chosen)?.group.focus();
      }
      layout.edges.forEach((edge, number) => set(drawn.edges[number], { "stroke-width": edgeWidth(edge.rate).toFixed(1), class: edgeClass(edge) }));
      const foldings = new Map(layout.boxes.filter(({ foldable }) => foldable).map(({ key, folded }) => [key, folded]));
      for (const [key, parts] of drawn.nodes) paintNode(parts, shown, key, rate(key), key === chosen, foldings.get(key));
      details.replaceChildren(...nodeDetails(shown.get(chosen), rate(chosen)));
    },
  };
}

function edgeClass(edge) {
  return ["edge", edge.warm ? "warm" : "", edge.rate > 0 ? "busy" : ""].join(" ").trim();
}

// What makes another drawing necessary: other boxes, or others in them.
function shapeOf(layout, nodes) {
  return layout.boxes.map((box) => `${box.lines.map((key) => `${key} ${nodes.get(key).policy} ${nodes.get(key).warm}`).join()}+${box.more} ${box.hidden} ${box.folded} ${box.x}`).join("\n");
}

// The names of boxes: those with one parent stay different though they are clipped.
function boxLabels(layout, nodes) {
  const siblings = new Map();
  for (const box of layout.boxes) {
    const { parent } = nodes.get(box.key);
    siblings.set(parent, [...(siblings.get(parent) ?? []), box]);
  }
  const labels = new Map();
  for (const boxes of siblings.values()) {
    const names = boxes.map(({ key }) => nameOf(nodes.get(key), nodes.get(nodes.get(key).parent)));
    const short = labelsOf(names);
    boxes.forEach(({ key }, index) => labels.set(key, { label: short.get(names[index]), name: names[index] }));
  }
  return labels;
}

function drawBox(box, { label, name }, nodes, drawn, choose, setFold) {
  const first = nodes.get(box.key);
  const frame = svg("rect", { class: first.warm ? "box warm" : "box", width: BOX.width, height: box.height, rx: 6 });
  const head = svg("text", { class: "name", x: box.foldable ? 24 : 10, y: 17 }, label, svg("title", {}, name));
  const traffic = svg("text", { class: "traffic", x: BOX.width - 10, y: 17, "text-anchor": "end" });
  const lines = box.lines.flatMap((key, line) => drawLine(box, key, line, nodes.get(key), drawn, choose));
  drawn.get(box.key).traffic = traffic;
  const more = box.more > 0 ? [svg("text", { class: "quiet", x: 27, y: box.height - BOX.foot - 6 }, `and ${count(box.more)} more below; the filter finds them`)] : [];
  const sign = box.foldable ? [foldSign(box, setFold)] : [];
  return svg(
    "g",
    { transform: `translate(${box.x} ${box.y})`, role: "presentation" },
    frame,
    svg("g", { "aria-hidden": "true" }, ...sign, head, traffic),
    ...lines,
    ...more,
  );
}

// For the mouse; the keyboard has the arrow keys.
function foldSign(box, setFold) {
  const sign = svg("g", { class: "fold" }, svg("rect", { width: 24, height: 24 }), svg("text", { x: 10, y: 16 }, box.folded ? "▸" : "▾"));
  sign.addEventListener("click", () => setFold(box.key, !box.folded));
  return sign;
}

function drawLine(box, key, line, row, drawn, choose) {
  const y = BOX.head + line * BOX.line;
  const back = svg("rect", { class: "line", x: 4, y, width: BOX.width - 8, height: BOX.line, rx: 4 });
  const shape = svg("text", { class: "shape", x: 11, y: y + 14 });
  const policy = svg("text", { x: 27, y: y + 14 }, middleClipped(shortPolicy(row.policy), 27));
  if (box.hidden > 0) policy.append(svg("tspan", { class: "quiet" }, ` and ${plural(box.hidden, "policy", "policies")} below`));
  const state = svg("text", { class: "state", x: BOX.width - 10, y: y + 14, "text-anchor": "end" });
  const group = svg("g", { class: "node", role: "treeitem", tabindex: "-1", "aria-level": levelOf(row) }, back);
  group.addEventListener("click", () => choose(key, true));
  drawn.set(key, { group, shape, state, traffic: null });
  return [group, svg("g", { class: "drawn", "aria-hidden": "true" }, shape, policy, state)];
}

function paintNode(parts, nodes, key, rate, chosen, folded) {
  const row = nodes.get(key);
  const tone = toneOf(row.state);
  write(parts.shape, SHAPES[tone]);
  set(parts.shape, { "data-tone": tone });
  write(parts.state, row.state === "TRANSIENT_FAILURE" ? "FAILING" : row.state);
  if (parts.traffic) write(parts.traffic, row.warm ? "kept warm" : perSecond(rate));
  set(parts.group, {
    tabindex: chosen ? "0" : "-1",
    "aria-selected": String(chosen),
    "aria-expanded": folded === undefined ? null : String(!folded),
    "aria-label": `${nameOf(row, nodes.get(row.parent))}, ${shortPolicy(row.policy)}, ${row.state}, ${row.warm ? "kept warm" : perSecond(rate)}`,
  });
}

// What its parent calls it; the root's parent is the channel, and a locality is called by its parts.
function nameOf(row, parent) {
  if (row.parent === null) return row.channel;
  const name = parent ? row.path.slice(parent.path.length + 1) : row.path.slice(row.path.lastIndexOf("/") + 1);
  const locality = name.match(/^\{region="(.*)", zone="(.*)", sub_zone="(.*)"\}$/);
  return locality === null ? name : locality.slice(1).filter(Boolean).join("/") || "no locality";
}

function levelOf(row) {
  return row.path.split("/").length;
}

function nodeDetails(row, rate) {
  if (row === undefined) return [];
  const pairs = [
    ["Policy", row.policy],
    ["State", row.state],
    ["Traffic", row.warm ? "none: it is kept for the case that it is wanted again" : `${perSecond(rate)}, ${plural(row.picks, "pick")} in all`],
    ["Sees", row.says || "–"],
    ["Path", row.path],
  ];
  return [el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]))];
}

// Up and down go through the nodes as they are read; left goes towards the root, right to the first child's box.
function stepInTree(layout, key, pressed) {
  const order = readingOrder(layout);
  const at = order.indexOf(key);
  const box = layout.boxes.find(({ lines }) => lines.includes(key));
  if (box === undefined) return null;
  switch (pressed) {
    case "ArrowDown":
      return order[at + 1] ?? null;
    case "ArrowUp":
      return order[at - 1] ?? null;
    case "ArrowRight":
      return layout.edges.find(({ from }) => from === box)?.to.key ?? null;
    case "ArrowLeft":
      return layout.edges.find(({ to }) => to === box)?.from.lines.at(-1) ?? null;
    case "Home":
      return order[0];
    case "End":
      return order.at(-1);
  }
  return null;
}
