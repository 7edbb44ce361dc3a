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
  const session = el("input", { id: "explain-session", placeholder: "none; or as in the picks", spellcheck: "false", autocomplete: "off" });
  const answer = el("div", { class: "answer", "aria-live": "polite" });
  const form = el(
    "form",
    { "aria-label": "Explain a call" },
    el("label", { for: "explain-channel" }, "Channel"),
    channel,
    el("label", { for: "explain-method" }, "Method"),
    method,
    methods,
    el("label", { for: "explain-metadata" }, "Metadata"),
    metadata,
    el("label", { for: "explain-session" }, "Session, whose cookies the call has"),
    session,
    el("button", { type: "submit" }, "Explain"),
    answer,
  );
  // Beside the picks where there is room, and else above them, folded until it is wanted.
  const element = el("details", { class: "explain" }, el("summary", {}, "Explain a call"), form);
  element.open = matchMedia("(min-width: 1500px)").matches;
  let number = 0;

  function send() {
    number += 1;
    answer.replaceChildren(quiet("asked …"));
    const question = { id: number, method: method.value, metadata: metadataFrom(metadata.value), session: session.value.trim() };
    if (!app.ask("explain", channel.value, question)) answer.replaceChildren(quiet("not connected"));
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });

  return {
    element,
    ask(key, path, pairs, its) {
      element.open = true;
      channel.value = key;
      method.value = path;
      session.value = its ?? "";
      metadata.value = pairs.map(([name, value]) => `${name}: ${value}`).join("\n");
      send();
      element.scrollIntoView({ block: "nearest" });
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
