// Where the nodes of the load balancing tree stand. Pure: rows in, numbers out.
//
// Policies that have one child each stand in one box, line by line: a mesh's tree is deep, and only where it branches
// is there anything to see. Boxes go from left to right, one column for each branching.

const BOX = { width: 236, head: 24, line: 20, gapX: 44, gapY: 14, foot: 6 };
const MOST_CHILDREN = 12; // of one node; the busiest

// `nodes` is a Map of key to row; `rate` gives picks a second; `wanted` says which branches may be left out.
function layoutTree(nodes, rate, wanted = () => true) {
  const boxes = [];
  const edges = [];
  let bottom = 0;
  for (const [key, row] of nodes) {
    if (row.parent !== null && nodes.has(row.parent)) continue;
    bottom = place(nodes, rate, wanted, key, 0, bottom, boxes, edges).bottom + BOX.gapY;
  }
  const right = Math.max(0, ...boxes.map((box) => box.x + BOX.width));
  return { boxes, edges, width: right, height: Math.max(0, bottom - BOX.gapY) };
}

function place(nodes, rate, wanted, key, depth, top, boxes, edges) {
  const lines = chainFrom(nodes, key);
  const box = { key, lines, x: depth * (BOX.width + BOX.gapX), y: top, more: 0, height: heightOf(lines.length) };
  boxes.push(box);
  const { shown, more } = childrenOf(nodes, rate, wanted, lines.at(-1));
  box.more = more;
  if (more > 0) box.height += BOX.line;
  let bottom = top;
  const below = [];
  for (const child of shown) {
    const placed = place(nodes, rate, wanted, child, depth + 1, bottom, boxes, edges);
    below.push(placed.box);
    bottom = placed.bottom + BOX.gapY;
  }
  if (below.length > 0) {
    const middle = (below[0].y + below.at(-1).y + below.at(-1).height) / 2;
    box.y = Math.max(top, middle - box.height / 2);
  }
  for (const child of below) edges.push({ from: box, to: child, rate: rate(child.key), warm: nodes.get(child.key).warm });
  return { box, bottom: Math.max(bottom - BOX.gapY, box.y + box.height) };
}

function heightOf(lines) {
  return BOX.head + lines * BOX.line + BOX.foot;
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
function edgePath({ from, to }) {
  const [x1, y1] = [from.x + BOX.width, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + to.height / 2];
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
  const below = (key) => {
    found.add(key);
    for (const child of nodes.get(key)?.children ?? []) if (!found.has(child)) below(child);
  };
  for (const [key, row] of nodes)
    if (`${row.path} ${row.policy} ${row.state}`.toLowerCase().includes(text)) {
      below(key);
      for (let up = row.parent; up !== null && nodes.has(up); up = nodes.get(up).parent) found.add(up);
    }
  return found;
}
