// Elements, made of names and texts. Nothing here, or anywhere in the page, makes an element of a text: what comes from
// the feed was named by strangers, and goes into text nodes only.

function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(element, attributes, children) {
  set(element, attributes);
  element.append(...children);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : value);
  }
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function button(label, press, attributes = {}) {
  const made = el("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", press);
  return made;
}

// A state: its shape and its word, in its colour.
function chip(word, tone = toneOf(word)) {
  return el("span", { class: "chip", "data-tone": tone }, el("span", { "aria-hidden": "true" }, SHAPES[tone]), word);
}

const UNBROKEN = 24; // characters of a name that stay in one line

function mono(text) {
  return el("span", { class: text.length > UNBROKEN ? "mono" : "mono unbroken" }, ...breakable(text));
}

// A text that may go on in the next line after a separator, and in a part that is too long anywhere.
function breakable(text) {
  if (text.length <= UNBROKEN) return [text];
  const parts = text.split(/(?<=[/.|:,\s_-])/).flatMap((part) => part.match(new RegExp(`.{1,${UNBROKEN}}`, "gsu")) ?? []);
  return parts.flatMap((part, at) => (at === 0 ? [part] : [el("wbr"), part]));
}

function quiet(text) {
  return el("span", { class: "quiet" }, text);
}

// A number with a bar as long as its share; the bar is for the eyes only.
function barred(number, share, tone = "calm") {
  const length = el("span", { class: "length", "data-tone": tone });
  length.style.setProperty("width", `${Math.round(Math.min(1, share) * 100)}%`);
  return el("span", { class: "bar" }, el("span", { class: "track", "aria-hidden": "true" }, length), count(number));
}

// The head of a view: its name, what it is about, and its controls.
function viewHead(title, about, ...controls) {
  return el(
    "div",
    { class: "viewhead" },
    el("div", {}, el("h2", {}, title), el("p", { class: "quiet" }, about)),
    el("div", { class: "controls" }, ...controls),
  );
}

function filterBox(label, changed) {
  const input = el("input", { type: "search", placeholder: "filter", "aria-label": label, spellcheck: "false" });
  input.addEventListener("input", changed);
  return input;
}
