// The differences between two texts, line by line. Pure.

const MOST_CHANGED = 1500; // lines of the part that is not the same at both ends; beyond them it is shown as replaced
const CONTEXT = 3; // lines around each difference

// [{sign: " ", "-" or "+", text}], the shortest way from one text to the other.
function diffLines(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const same = (lines) => lines.map((text) => ({ sign: " ", text }));
  return [...same(a.slice(0, start)), ...changedPart(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...same(a.slice(a.length - end))];
}

function changedPart(a, b) {
  const removed = (text) => ({ sign: "-", text });
  const added = (text) => ({ sign: "+", text });
  if (a.length === 0 || b.length === 0 || a.length > MOST_CHANGED || b.length > MOST_CHANGED) return [...a.map(removed), ...b.map(added)];
  // The longest common part of each pair of ends, from the last lines to the first.
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const made = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      made.push({ sign: " ", text: a[i] });
      i += 1;
      j += 1;
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) made.push(removed(a[i++]));
    else made.push(added(b[j++]));
  }
  return [...made, ...a.slice(i).map(removed), ...b.slice(j).map(added)];
}

// Of many lines that are the same only those near a difference: {sign: "…", text} stands for the others.
function withoutSame(lines) {
  const near = new Set();
  lines.forEach(({ sign }, at) => {
    if (sign !== " ") for (let each = at - CONTEXT; each <= at + CONTEXT; each += 1) near.add(each);
  });
  const shown = [];
  let skipped = 0;
  const close = () => {
    if (skipped > 0) shown.push({ sign: "…", text: `${plural(skipped, "line")} unchanged` });
    skipped = 0;
  };
  lines.forEach((line, at) => {
    if (!near.has(at)) skipped += 1;
    else {
      close();
      shown.push(line);
    }
  });
  close();
  return shown;
}
