// The load balancing tree, drawn; the arrow keys walk through it, and what a policy says of itself stands beside it.

function treeView(app) {
  const filter = filterBox("Filter the tree by cluster or policy", app.repaint);
  const drawing = svg("svg", { role: "tree", "aria-label": "Load balancing tree" });
  const details = el("div", { class: "details", "aria-live": "polite" });
  const empty = el("p", { class: "empty" }, "No tree: the channel has no configuration yet.");
  const stage = el("div", { class: "stage" }, drawing, empty);
  const drawn = { shape: "", nodes: new Map(), edges: [] };
  let layout = layoutTree(new Map(), () => 0);
  let chosen = null;

  function choose(key, focus) {
    chosen = key;
    app.repaint();
    if (focus) drawn.nodes.get(key)?.group.focus();
  }

  drawing.addEventListener("keydown", (event) => {
    const next = stepInTree(layout, chosen, event.key);
    if (next === null) return;
    event.preventDefault();
    choose(next, true);
  });

  function redraw(nodes) {
    drawn.nodes.clear();
    drawn.edges = layout.edges.map((edge) => svg("path", { class: edge.warm ? "edge warm" : "edge", d: edgePath(edge) }));
    const boxes = layout.boxes.map((box, number) => drawBox(box, number, nodes, drawn.nodes, choose));
    drawing.replaceChildren(...drawn.edges, ...boxes);
    set(drawing, { width: layout.width + 2, height: layout.height + 2, viewBox: `-1 -1 ${layout.width + 2} ${layout.height + 2}` });
  }

  return {
    element: el(
      "div",
      {},
      viewHead("Load balancing tree", "Policy by policy, from the channel to its leaves; a line is as thick as its traffic.", filter),
      stage,
      details,
    ),
    paint(model, channel) {
      const nodes = new Map(rowsOf(model, "nodes", channel).map(({ key, row }) => [key, row]));
      const rate = (key) => rateOf(model, "nodes", key);
      const text = filter.value.trim().toLowerCase();
      const found = text === "" ? null : branchesWith(nodes, text);
      const shown = found === null ? nodes : new Map([...nodes].filter(([key]) => found.has(key)));
      layout = layoutTree(shown, rate, (key) => found === null || found.has(key));
      if (!shown.has(chosen)) chosen = layout.boxes[0]?.key ?? null;
      empty.hidden = layout.boxes.length > 0;
      const shape = shapeOf(layout, shown);
      if (shape !== drawn.shape) {
        const focused = drawing.contains(document.activeElement);
        redraw(shown);
        drawn.shape = shape;
        if (focused) drawn.nodes.get(chosen)?.group.focus();
      }
      layout.edges.forEach((edge, number) => set(drawn.edges[number], { "stroke-width": edgeWidth(edge.rate).toFixed(1), class: edgeClass(edge) }));
      for (const [key, parts] of drawn.nodes) paintNode(parts, shown, key, rate(key), key === chosen);
      details.replaceChildren(...nodeDetails(shown.get(chosen), rate(chosen)));
    },
  };
}

function edgeClass(edge) {
  return ["edge", edge.warm ? "warm" : "", edge.rate > 0 ? "busy" : ""].join(" ").trim();
}

// What makes another drawing necessary: other boxes, or others in them.
function shapeOf(layout, nodes) {
  return layout.boxes.map((box) => `${box.lines.map((key) => `${key} ${nodes.get(key).policy} ${nodes.get(key).warm}`).join()}+${box.more}`).join("\n");
}

function drawBox(box, number, nodes, drawn, choose) {
  const first = nodes.get(box.key);
  const frame = svg("rect", { class: first.warm ? "box warm" : "box", width: BOX.width, height: box.height, rx: 6 });
  const head = svg("text", { class: "name", x: 10, y: 17 }, clipped(nameOf(first, nodes.get(first.parent)), 20));
  const traffic = svg("text", { class: "traffic", x: BOX.width - 10, y: 17, "text-anchor": "end" });
  const lines = box.lines.map((key, line) => drawLine(box, key, line, nodes.get(key), drawn, choose));
  drawn.get(box.key).traffic = traffic;
  const more = box.more > 0 ? [svg("text", { class: "quiet", x: 10, y: box.height - BOX.foot - 4 }, `and ${count(box.more)} more below; the filter finds them`)] : [];
  return svg(
    "g",
    { transform: `translate(${box.x} ${box.y})`, role: "presentation" },
    frame,
    svg("g", { "aria-hidden": "true" }, head, traffic),
    ...lines,
    ...more,
  );
}

function drawLine(box, key, line, row, drawn, choose) {
  const y = BOX.head + line * BOX.line;
  const back = svg("rect", { class: "line", x: 4, y, width: BOX.width - 8, height: BOX.line, rx: 4 });
  const shape = svg("text", { class: "shape", x: 11, y: y + 14 });
  const policy = svg("text", { x: 27, y: y + 14 }, clipped(shortPolicy(row.policy), 21));
  const state = svg("text", { class: "state", x: BOX.width - 10, y: y + 14, "text-anchor": "end" });
  const group = svg("g", { class: "node", role: "treeitem", tabindex: "-1", "aria-level": levelOf(row) }, back, shape, policy, state);
  group.addEventListener("click", () => choose(key, true));
  drawn.set(key, { group, shape, state, traffic: null });
  return group;
}

function paintNode(parts, nodes, key, rate, chosen) {
  const row = nodes.get(key);
  const tone = toneOf(row.state);
  write(parts.shape, SHAPES[tone]);
  set(parts.shape, { "data-tone": tone });
  write(parts.state, row.state === "TRANSIENT_FAILURE" ? "FAILING" : row.state);
  if (parts.traffic) write(parts.traffic, row.warm ? "kept warm" : perSecond(rate));
  set(parts.group, {
    tabindex: chosen ? "0" : "-1",
    "aria-selected": String(chosen),
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

function clipped(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
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
