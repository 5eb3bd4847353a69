// A text with blanks, and what the model would fill each of them with.

import { button, element, fill } from "../lens/elements.js";
import { bars, field, latest, statusLine } from "../parts.js";

const BLANK = "[MASK]";
const BEST = 5; // candidates of a blank

export function panel(model, server) {
  const status = statusLine();
  const work = latest(status);
  const text = field("Text", predict, { placeholder: `Type a text; ${BLANK} or ___ is a blank`, rows: 3 });
  const tools = element("div", { class: "tools" });
  const result = element("div", { class: "result", "aria-live": "polite" });
  fill(tools, button("Insert a blank", insert),
    model.traced ? button("Look inside", () => server.look(given())) : null);

  function given() {
    return text.value.trim().replace(/_{2,}/g, BLANK);
  }

  function insert() {
    text.setRangeText(BLANK, text.selectionStart, text.selectionEnd, "end");
    text.focus();
    predict();
  }

  function predict() {
    const asked = given();
    if (!asked.includes(BLANK)) {
      work.stop();
      fill(result);
      status.say(asked ? `The text has no blank. Write ${BLANK} or ___ for a word to fill in.` : "");
      return;
    }
    work.run(async (signal) => {
      const began = performance.now();
      const [found] = await server.predict([asked], { n_best: BEST }, signal);
      status.say(`${Math.round(performance.now() - began)} ms`);
      fill(result, element("p", { class: "tagged", dir: "auto" }, filled(asked, found.tokens)),
        element("div", { class: "charts" }, found.candidates.map((candidates, place) => element("section", {},
          element("h3", {}, `Blank ${place + 1}`),
          bars(Object.fromEntries(candidates.map((each) => [each.text, each.probability])))))));
    });
  }

  return element("section", { class: "panel" },
    element("header", {}, element("h2", {}, "Text"), tools),
    element("div", { class: "stack" }, text), status.node, result);
}

/** The text with its blanks filled, each marked. */
function filled(text, tokens) {
  return text.split(BLANK).flatMap((part, place) => {
    if (place >= tokens.length) return [part];
    const mark = element("span", { class: "span" }, tokens[place].trim());
    mark.style.setProperty("--tint", "var(--accent)");
    return [part, mark];
  });
}
