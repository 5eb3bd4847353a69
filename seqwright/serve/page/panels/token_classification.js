// Words with their tags, in colours.

import { button, element, fill } from "../lens/elements.js";
import { colours, field, latest, percent, statusLine } from "../parts.js";

export function panel(model, server) {
  const status = statusLine();
  const work = latest(status);
  const colour = colours();
  const text = field("Text", tag, { placeholder: "Type or paste a sentence", rows: 4 });
  const result = element("div", { class: "result tagged", "aria-live": "polite", dir: "auto" });
  const legend = element("ul", { class: "roles" });

  function tag() {
    const given = text.value.trim().replace(/\s+/g, " ");
    if (!given) {
      work.stop();
      fill(result);
      fill(legend);
      return;
    }
    work.run(async (signal) => {
      const began = performance.now();
      const [found] = await server.predict([given], {}, signal);
      status.say(`${Math.round(performance.now() - began)} ms`);
      draw(spans(found));
    });
  }

  function draw(parts) {
    const names = [...new Set(parts.map(({ name }) => name).filter(Boolean))];
    fill(result, parts.flatMap(({ words, name, chance }) => {
      const shown = words.join(" ");
      if (!name) return [shown, " "];
      const node = element("span", { class: "span", title: percent(chance) }, shown,
        element("small", {}, name));
      node.style.setProperty("--tint", colour(name));
      return [node, " "];
    }));
    fill(legend, names.map((name) => {
      const dot = element("i");
      dot.style.background = colour(name);
      return element("li", {}, dot, element("b", {}, name));
    }));
  }

  return element("section", { class: "panel" },
    element("header", {}, element("h2", {}, "Text"), element("div", { class: "tools" },
      model.traced ? button("Look inside", () => server.look(text.value.trim())) : null)),
    element("div", { class: "stack" }, text), status.node, result, legend);
}

/** Joins words of one entity (B-, I-, E-, S- before a name); a tag without a prefix is a span of one word. */
function spans({ tokens, tags, probabilities }) {
  const parts = [];
  tokens.forEach((word, place) => {
    const tag = tags[place];
    const [, prefix, rest] = /^(?:([BIES])-)?(.*)$/.exec(tag);
    const name = tag === "O" || tag === "_" ? "" : rest;
    const last = parts.at(-1);
    const joins = last && last.name === name && (name ? prefix === "I" || prefix === "E" : true);
    const chance = probabilities?.[place] ?? 1;
    if (joins) {
      last.words.push(word);
      last.chance = Math.min(last.chance, chance);
    } else parts.push({ name, words: [word], chance });
  });
  return parts;
}
