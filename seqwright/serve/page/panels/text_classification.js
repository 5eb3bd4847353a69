// A text, or two that are read together, and the probability of each label.

import { button, element, fill } from "../lens/elements.js";
import { bars, field, latest, statusLine } from "../parts.js";

export function panel(model, server) {
  const status = statusLine();
  const work = latest(status);
  const roles = model.roles.filter((role) => role.needed === "always");
  const one = roles.length === 1;
  const fields = roles.map(({ name }) => (one
    ? field("Text", classify, { placeholder: "Type or paste a text", rows: 5 })
    : field(name, classify, { placeholder: name, rows: 3 })));
  const result = element("div", { class: "result", "aria-live": "polite" });

  function classify() {
    const texts = fields.map((node) => node.value.trim());
    const given = one ? texts[0] : Object.fromEntries(roles.map(({ name }, number) => [name, texts[number]]));
    if (!texts.every(Boolean)) {
      work.stop();
      fill(result);
      status.say("");
      return;
    }
    work.run(async (signal) => {
      const began = performance.now();
      const [found] = await server.predict([given], {}, signal);
      status.say(`${Math.round(performance.now() - began)} ms`);
      draw(given, found);
    });
  }

  function draw(given, found) {
    fill(result,
      element("header", { class: "answer" },
        element("h2", { class: "big", dir: "auto" }, found.label),
        found.unsure ? element("span", { class: "badge" }, "unsure") : null,
        element("div", { class: "tools" },
          model.traced ? button("Look inside", () => server.look(given)) : null)),
      bars(found.probabilities, (label) => correct(given, label, found.label)),
      element("p", { class: "quiet" }, "Wrong? Press the right label; it is stored as a correction."));
  }

  async function correct(given, label, output) {
    try {
      await server.correct(given, label, output);
      status.say(`Saved: “${label}” is right.`);
    } catch (error) {
      status.say(error.message, true);
    }
  }

  return element("section", { class: "panel" },
    element("header", {}, element("h2", {}, one ? "Text" : "Texts")),
    fields.map((node, number) => element("div", { class: "stack" },
      one ? null : element("p", { class: "label" }, roles[number].name), node)),
    status.node, result);
}
