// Where would this call go? Asked of the program, which looks it up and sends nothing.

function explainForm(app) {
  const channel = el("select", { id: "explain-channel" });
  const methods = el("datalist", { id: "explain-methods" });
  const method = el("input", {
    id: "explain-method",
    list: "explain-methods",
    placeholder: "/package.Service/Method",
    required: true,
    spellcheck: "false",
    autocomplete: "off",
  });
  const metadata = el("textarea", { id: "explain-metadata", rows: "2", placeholder: "key: value, one in a line", spellcheck: "false" });
  const answer = el("div", { class: "answer", "aria-live": "polite" });
  const form = el(
    "form",
    { class: "explain", "aria-label": "Explain a call" },
    el("h3", {}, "Explain a call"),
    el("label", { for: "explain-channel" }, "Channel"),
    channel,
    el("label", { for: "explain-method" }, "Method"),
    method,
    methods,
    el("label", { for: "explain-metadata" }, "Metadata"),
    metadata,
    el("button", { type: "submit" }, "Explain"),
    answer,
  );
  let number = 0;

  function send() {
    number += 1;
    answer.replaceChildren(quiet("asked …"));
    const question = { id: number, channel: channel.value, method: method.value, metadata: metadataFrom(metadata.value) };
    if (!app.send({ explain: question })) answer.replaceChildren(quiet("not connected"));
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });

  return {
    element: form,
    ask(key, path, pairs) {
      channel.value = key;
      method.value = path;
      metadata.value = pairs.map(([name, value]) => `${name}: ${value}`).join("\n");
      send();
    },
    paint(model) {
      options(channel, [...model.sections.channels.keys()]);
      options(methods, [...new Set(model.picks.map((pick) => pick.method))].sort().slice(0, 50));
    },
    explained(told) {
      if (told.id === number) answer.replaceChildren(...explanation(told));
    },
  };
}

// Lines of `key: value`; those without a colon say nothing.
function metadataFrom(text) {
  return text
    .split("\n")
    .map((line) => line.match(/^\s*([^:\s]+)\s*:\s*(.*?)\s*$/))
    .filter((found) => found !== null)
    .map(([, key, value]) => [key, value]);
}

function options(element, values) {
  const there = [...element.children].map((option) => option.value);
  if (there.join("\n") === values.join("\n")) return;
  const chosen = element.value;
  element.replaceChildren(...values.map((value) => el("option", { value }, value)));
  if (values.includes(chosen)) element.value = chosen;
}

const VERDICTS = { goes: "good", waits: "busy", fails: "bad", unknown: "calm" }; // tones

function explanation(told) {
  if (told.error) return [el("p", { class: "trouble" }, told.error)];
  const lines = told.lines.map((line) =>
    el(
      "li",
      { "data-about": line.about },
      el("span", { class: "about" }, line.about === "policy" ? shortPolicy(line.policy) : line.about),
      el("span", {}, line.text),
    ),
  );
  const verdict = el("p", { class: "verdict" }, chip(told.outcome, VERDICTS[told.verdict]));
  return [verdict, el("ol", { class: "steps" }, ...lines)];
}
