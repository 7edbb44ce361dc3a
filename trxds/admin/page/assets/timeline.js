// Requests, errors and latency over time, with a mark wherever another configuration came into force.

const CHART = { height: 150, left: 56, right: 84, top: 22, gap: 34, foot: 22, padding: 16 };
const LABEL_WIDTH = 80; // pixels that a time of day needs, with room around it
const SPANS = [["1 min", 60], ["5 min", 300], ["15 min", 900]];

function timelineView(app) {
  const span = el("select", { "aria-label": "Time shown" }, ...SPANS.map(([name, value]) => el("option", { value }, name)));
  span.value = "60";
  span.addEventListener("change", app.repaint);
  const drawing = svg("svg", { role: "img", tabindex: "0", class: "chart" });
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const stage = el("div", { class: "stage" }, drawing, readout);
  const marks = new Table({
    label: "Changes of configuration, newest first",
    empty: "No configuration came into force since this page was opened.",
    columns: [
      { key: "number", title: "Mark", numeric: true, cell: (row) => String(row.number) },
      { key: "time", title: "Time", said: (row) => row.time, cell: (row) => mono(clock(row.time)) },
      { key: "ago", title: "", cell: (row) => ago(app.now() - row.time) },
      { key: "channel", title: "Channel", cell: (row) => row.channel },
      { key: "text", title: "What changed", wide: true, cell: (row) => row.text },
    ],
  });
  const key = el("ul", { class: "legend", "aria-label": "Legend" }, ...["requests", "errors", "p50", "p99", "configuration"].map((name) => el("li", { "data-series": name }, name)));
  let cursor = null; // a second
  let chart = null;

  function pointAt(event) {
    if (chart === null) return;
    const x = event.offsetX - CHART.left;
    cursor = Math.floor(chart.from + (x / chart.width) * (chart.to - chart.from));
    app.repaint();
  }
  drawing.addEventListener("pointermove", pointAt);
  drawing.addEventListener("pointerleave", () => { cursor = null; app.repaint(); });
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || chart === null) return;
    event.preventDefault();
    cursor = (cursor ?? chart.to - 1) + step;
    app.repaint();
  });

  return {
    element: el("div", {}, viewHead("Timeline", "Calls that ended in each second, and when another configuration came into force.", key, span), stage, marks.element),
    paint(model, channel, now) {
      const to = Math.floor(now);
      const from = to - Number(span.value);
      const width = Math.max(200, (stage.clientWidth || 900) - 2 * CHART.padding - CHART.left - CHART.right);
      const byTime = secondsByTime(model.seconds, channel);
      const numberedMarks = clientEventsOf(model, model.marks, channel).map((mark, index) => ({ ...mark, number: index + 1 }));
      chart = { ...layoutChart(byTime, numberedMarks, { from, to, width, height: CHART.height }), from, to, width };
      drawChart(drawing, chart, cursor);
      set(drawing, { "aria-label": `Last ${span.selectedOptions[0].textContent}: ${chartInWords(chart.seconds, chart.marks)} Left and right read single seconds.` });
      write(readout, cursor === null ? chartInWords(chart.seconds, chart.marks) : secondInWords(byTime.get(cursor), cursor));
      marks.paint([...numberedMarks].reverse().map((row) => ({ key: row.number, row })));
    },
  };
}

function secondInWords(second, time) {
  if (second === undefined) return `${clock(time)}: no call ended.`;
  const errors = Object.entries(second.errors).map(([code, number]) => `${number} ${code}`).join(", ");
  return `${clock(time)}: ${plural(second.requests, "request")}, ${errors || "no errors"}, p50 ${millis(second.p50)}, p99 ${millis(second.p99)}.`;
}

function drawChart(drawing, chart, cursor) {
  const upper = CHART.top;
  const lower = upper + CHART.height + CHART.gap;
  const total = lower + CHART.height + CHART.foot;
  const width = CHART.left + chart.width + CHART.right;
  set(drawing, { width, height: total, viewBox: `0 0 ${width} ${total}` });
  drawing.replaceChildren(
    hatch(),
    axes(upper, chart, "requests / s", chart.mostRequests, String),
    axes(lower, chart, "latency", chart.mostTime, millis),
    svg("g", { transform: `translate(${CHART.left} ${upper})` }, ...chart.bars.flatMap(barOf)),
    svg("g", { transform: `translate(${CHART.left} ${lower})`, fill: "none" }, svg("path", { class: "p99", d: chart.p99 }), svg("path", { class: "p50", d: chart.p50 })),
    ...endLabels(lower, chart),
    ...timeLabels(chart, total),
    ...chart.flags.map((flag) => flagOf(flag, upper, lower + CHART.height)),
    ...(cursor === null ? [] : [cursorOf(chart, cursor, upper, lower + CHART.height)]),
  );
}

// Errors are hatched as well as red.
function hatch() {
  const pattern = svg("pattern", { id: "hatch", width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(svg("rect", { width: 4, height: 4, class: "error" }), svg("rect", { width: 1.5, height: 4, class: "stripe" }));
  return svg("defs", {}, pattern);
}

function axes(top, chart, title, most, said) {
  const lines = [0, 0.5, 1].flatMap((share) => {
    const y = top + CHART.height * (1 - share);
    const at = { x1: CHART.left, x2: CHART.left + chart.width, y1: y, y2: y };
    return [svg("line", { class: "grid", ...at }), svg("text", { class: "tick", x: CHART.left - 8, y: y + 4, "text-anchor": "end" }, said(most * share))];
  });
  return svg("g", { class: "axes" }, svg("text", { class: "axis", x: CHART.left, y: top - 8 }, title), ...lines);
}

function barOf({ left, width, top, errorBottom, failed }) {
  const bars = [svg("rect", { class: "request", x: left, width, y: errorBottom, height: CHART.height - errorBottom })];
  if (failed > 0) bars.push(svg("rect", { fill: "url(#hatch)", x: left, width, y: top, height: Math.max(2, errorBottom - top) }));
  return bars;
}

// Each line has its name where it ends, so that nobody has to look for a legend.
function endLabels(top, chart) {
  const last = chart.seconds.at(-1);
  if (last === undefined) return [];
  const y = (value) => top + CHART.height - (value / chart.mostTime) * CHART.height;
  const apart = Math.max(0, 13 - (y(last.p50) - y(last.p99)));
  const x = CHART.left + chart.width + 6;
  return [
    svg("text", { class: "tick", x, y: y(last.p99) + 4 - apart / 2 }, `p99 ${millis(last.p99)}`),
    svg("text", { class: "tick", x, y: y(last.p50) + 4 + apart / 2 }, `p50 ${millis(last.p50)}`),
  ];
}

function timeLabels(chart, bottom) {
  const every = (chart.to - chart.from) / Math.max(1, Math.min(5, Math.floor(chart.width / LABEL_WIDTH)));
  const first = Math.ceil(chart.from / every) * every;
  const labels = [];
  for (let time = first; time <= chart.to; time += every)
    labels.push(svg("text", { class: "tick", x: CHART.left + chart.x(time), y: bottom - 4, "text-anchor": "middle" }, clock(time)));
  return labels;
}

function flagOf(flag, top, bottom) {
  const x = CHART.left + flag.x;
  const width = 10 + 6 * flag.label.length;
  return svg(
    "g",
    { class: "mark" },
    svg("line", { x1: x, x2: x, y1: top - 4, y2: bottom }),
    svg("rect", { x: x - width / 2, y: top - 19, width, height: 16, rx: 8 }),
    svg("text", { x, y: top - 7, "text-anchor": "middle" }, flag.label),
    svg("title", {}, flag.text),
  );
}

function cursorOf(chart, cursor, top, bottom) {
  const x = CHART.left + chart.x(cursor + 0.5);
  return svg("line", { class: "cursor", x1: x, x2: x, y1: top, y2: bottom });
}
