// The timeline's geometry. Pure: seconds in, bars and lines out.

const FLAG_WIDTH = 36; // pixels

// The next of 1, 2, 2.5, 5, 10, 20, 25, ... that is not below a value: a scale that people can read.
function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((top) => top >= value * 0.999999);
}

// `byTime` is what `secondsByTime` makes; `from` and `to` are seconds since 1970. The last column is the latest second.
function layoutChart(byTime, marks, { from, to, width, height }) {
  const seconds = [];
  for (let time = Math.floor(from); time < to; time += 1) {
    const second = byTime.get(time);
    if (second !== undefined) seconds.push(second);
  }
  const x = (time) => ((time - from) / (to - from)) * width;
  const mostRequests = niceTop(Math.max(0, ...seconds.map((each) => each.requests)));
  const mostTime = niceTop(Math.max(0, ...seconds.map((each) => each.p99)));
  const scaleRequests = (value) => height - (value / mostRequests) * height;
  const scaleTime = (value) => height - (value / mostTime) * height;
  const step = width / (to - from);
  return {
    seconds,
    x,
    mostRequests,
    mostTime,
    bars: seconds.map((each) => bar(each, x(each.time), step, scaleRequests)),
    p50: line(seconds, (each) => [x(each.time + 0.5), scaleTime(each.p50)]),
    p99: line(seconds, (each) => [x(each.time + 0.5), scaleTime(each.p99)]),
    marks: marksBetween(marks, from, to),
    flags: flagsOf(marksBetween(marks, from, to), x),
  };
}

function bar(second, left, step, scale) {
  const width = step > 3 ? step - 1 : step;
  const good = second.requests - second.failed;
  return { time: second.time, left, width, top: scale(second.requests), errorBottom: scale(good), failed: second.failed };
}

// A line breaks where there was nothing to measure.
function line(seconds, at) {
  let path = "";
  let last = null;
  for (const second of seconds) {
    const [x, y] = at(second);
    path += `${last !== null && second.time - last <= 2 ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    last = second.time;
  }
  return path;
}

function marksBetween(marks, from, to) {
  return marks.filter((mark) => mark.time >= from && mark.time <= to);
}

// Marks that would cover each other share a flag, at the first of them.
function flagsOf(marks, x) {
  const flags = [];
  for (const mark of marks) {
    const last = flags.at(-1);
    if (last !== undefined && x(mark.time) - last.x < FLAG_WIDTH) last.marks.push(mark);
    else flags.push({ x: x(mark.time), marks: [mark] });
  }
  return flags.map(({ x, marks }) => ({ x, label: flagLabel(marks), text: marks.map(({ text }) => text).join("; ") }));
}

function flagLabel(marks) {
  const [first, last] = [marks[0].number, marks.at(-1).number];
  return first === last ? String(first) : `${first}–${last}`;
}

// What a chart says in one sentence.
function chartInWords(seconds, marks) {
  if (seconds.length === 0) return "No requests in this time.";
  const requests = seconds.reduce((sum, each) => sum + each.requests, 0);
  const failed = seconds.reduce((sum, each) => sum + each.failed, 0);
  const worst = Math.max(...seconds.map((each) => each.p99));
  return (
    `${plural(requests, "request")}, ${plural(failed, "error")}, highest p99 ${millis(worst)}, ` +
    `${plural(marks.length, "configuration change")}.`
  );
}
