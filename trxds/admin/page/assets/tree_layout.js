// Where the nodes of the load balancing tree stand. Pure: rows in, numbers out.
//
// Policies that have one child each stand in one box, line by line: a mesh's tree is deep, and only where it branches
// is there anything to see. A box stands level with the first of those below it, so that the root is at the top. Boxes
// go from left to right, one column for each branching; in a narrow window they stand one below the other. A box that
// is folded shows its first policy, and how much is not shown.

const BOX = { width: 300, head: 24, line: 20, gapX: 44, gapY: 10, foot: 6, indent: 18 };
const MOST_CHILDREN = 12; // of one node; the busiest
const MOST_OPEN_BOXES = 12; // in a larger tree everything below the roots is folded at first
const LABEL_LENGTH = 30; // characters

// `nodes` is a Map of key to row; `rate` gives picks a second; `wanted` says which branches may be left out; `folds` is
// a Map of the reader's own choices, from the key of a box to whether it is folded.
function layoutTree(nodes, rate, wanted = () => true, { folds = new Map(), narrow = false, unfolded = false } = {}) {
  const many = !unfolded && countBoxes(nodes) > MOST_OPEN_BOXES;
  const isFolded = (key, depth) => !unfolded && (folds.get(key) ?? (many && depth > 0));
  const plan = { nodes, rate, wanted, isFolded, narrow, boxes: [], edges: [] };
  let bottom = 0;
  for (const [key, row] of nodes) {
    if (row.parent !== null && nodes.has(row.parent)) continue;
    bottom = place(plan, key, 0, bottom).bottom + BOX.gapY;
  }
  const right = Math.max(0, ...plan.boxes.map((box) => box.x + BOX.width));
  return { boxes: plan.boxes, edges: plan.edges, width: right, height: Math.max(0, bottom - BOX.gapY), narrow };
}

function place(plan, key, depth, top) {
  const { nodes, rate, wanted, narrow } = plan;
  const chain = chainFrom(nodes, key);
  const { shown, more } = childrenOf(nodes, rate, wanted, chain.at(-1));
  const foldable = chain.length > 1 || shown.length > 0;
  const folded = foldable && plan.isFolded(key, depth);
  const box = { key, depth, foldable, folded, lines: folded ? [key] : chain, hidden: 0, more: 0, y: top };
  box.x = depth * (narrow ? BOX.indent : BOX.width + BOX.gapX);
  if (folded) box.hidden = below(nodes, key).size - 1;
  else box.more = more;
  box.height = heightOf(box.lines.length) + (box.more > 0 ? BOX.line : 0);
  plan.boxes.push(box);
  let bottom = narrow ? top + box.height + BOX.gapY : top;
  for (const child of folded ? [] : shown) {
    const placed = place(plan, child, depth + 1, bottom);
    plan.edges.push({ from: box, to: placed.box, rate: rate(child), warm: nodes.get(child).warm, narrow });
    bottom = placed.bottom + BOX.gapY;
  }
  return { box, bottom: Math.max(bottom - BOX.gapY, box.y + box.height) };
}

function heightOf(lines) {
  return BOX.head + lines * BOX.line + BOX.foot;
}

// How many boxes there are if none is folded.
function countBoxes(nodes) {
  let boxes = 0;
  for (const row of nodes.values()) {
    const parent = nodes.get(row.parent);
    if (parent === undefined || parent.children.length !== 1 || parent.warm !== row.warm) boxes += 1;
  }
  return boxes;
}

// A node and all nodes below it.
function below(nodes, key, found = new Set()) {
  found.add(key);
  for (const child of nodes.get(key)?.children ?? []) if (nodes.has(child) && !found.has(child)) below(nodes, child, found);
  return found;
}

// Names that fit into a box and stay different: of those that are too long the part is kept in which they differ.
function labelsOf(names, most = LABEL_LENGTH) {
  const clipped = new Map(names.map((name) => [name, middleClipped(name, most)]));
  const labels = new Map(clipped);
  for (const name of clipped.keys()) {
    const same = names.filter((other) => other !== name && clipped.get(other) === clipped.get(name));
    if (same.length === 0) continue;
    const at = Math.min(...same.map((other) => firstDifference(name, other)));
    const from = Math.max(0, Math.min(at - Math.floor(most / 3), name.length - most + 1));
    labels.set(name, `…${name.slice(from, from + most - 2)}${from + most - 2 < name.length ? "…" : ""}`);
  }
  return labels;
}

function middleClipped(name, most) {
  if (name.length <= most) return name;
  const tail = Math.floor((most - 1) / 2);
  return `${name.slice(0, most - 1 - tail)}…${name.slice(-tail)}`;
}

function firstDifference(one, other) {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}

function chainFrom(nodes, key) {
  const lines = [key];
  for (;;) {
    const { children, warm } = nodes.get(lines.at(-1));
    const only = children.length === 1 ? nodes.get(children[0]) : undefined;
    if (only === undefined || only.warm !== warm || lines.includes(children[0])) return lines;
    lines.push(children[0]);
  }
}

function childrenOf(nodes, rate, wanted, key) {
  const there = nodes.get(key).children.filter((child) => nodes.has(child) && wanted(child));
  if (there.length <= MOST_CHILDREN) return { shown: there, more: 0 };
  const busiest = new Set([...there].sort((a, b) => rate(b) - rate(a)).slice(0, MOST_CHILDREN));
  return { shown: there.filter((child) => busiest.has(child)), more: there.length - MOST_CHILDREN };
}

// A line from box to box; each leaves and arrives level.
function edgePath({ from, to, narrow }) {
  if (narrow) return `M${from.x + 8} ${from.y + from.height}V${to.y + 12}H${to.x}`;
  const [x1, y1] = [from.x + BOX.width, from.y + 12];
  const [x2, y2] = [to.x, to.y + 12];
  const bend = (x2 - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

// Width of an edge in pixels: ten times the traffic is two pixels more.
function edgeWidth(rate) {
  return rate <= 0 ? 1 : Math.min(9, 1.5 + 2 * Math.log10(1 + rate));
}

// Keys of nodes in the order in which they are read, with their depth: what the arrow keys walk through.
function readingOrder(layout) {
  return layout.boxes.flatMap((box) => box.lines);
}

// A node and all above it, for whoever looks for a part of the tree by a text.
function branchesWith(nodes, text) {
  const found = new Set();
  for (const [key, row] of nodes)
    if (`${row.path} ${row.policy} ${row.state}`.toLowerCase().includes(text)) {
      below(nodes, key, found);
      for (let up = row.parent; up !== null && nodes.has(up); up = nodes.get(up).parent) found.add(up);
    }
  return found;
}
