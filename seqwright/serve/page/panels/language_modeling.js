// A writing pad: the model continues the text, and shows how surprising it is.

import { button, element, fill, slider, toggle } from "../lens/elements.js";
import { copyButton, latest, shade, statusLine } from "../parts.js";

const DARKEST = 6; // nats of a token that is shaded most

export function panel(model, server) {
  let surprise = false;
  let before = null; // the text before the last continuation
  const chosen = { temperature: 0.8, length: 200, seed: 1 };
  const status = statusLine();
  const work = latest(status);
  const pad = element("textarea", {
    class: "pad", "aria-label": "Text", dir: "auto", rows: 14, spellcheck: "false",
    placeholder: "Begin a text, and let the model continue it",
    oninput: () => { before = null; draw(); },
  });
  const shaded = element("div", { class: "pad shaded", dir: "auto", tabindex: 0 });
  const page = element("div", { class: "stack" }, pad);
  const tools = element("div", { class: "tools" });
  const controls = element("div", { class: "controls" });
  const node = element("section", { class: "panel", onkeydown: keys },
    element("header", {}, element("h2", {}, "Writing pad"), tools), page, status.node, controls);
  draw();

  function keys(event) {
    if (event.key === "Escape" && work.busy) work.stop();
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    write(false);
  }

  function draw() {
    const idle = !work.busy;
    fill(tools, copyButton(() => pad.value),
      model.traced ? button("Look inside", () => server.look(pad.value.slice(-200))) : null);
    fill(controls,
      idle ? button("Continue", () => write(false), { class: "primary", title: "Ctrl+Enter" })
        : button("Stop", () => work.stop(), { class: "primary", title: "Escape" }),
      idle && before !== null ? button("Again", () => write(true), { title: "Another continuation" }) : null,
      idle && before !== null ? button("Undo", undo) : null,
      slider("Temperature", { min: 0, max: 2, step: 0.1, value: chosen.temperature, format: (x) => x.toFixed(1) },
        (value) => { chosen.temperature = value; }),
      slider("Length", { min: 20, max: 1000, step: 20, value: chosen.length, format: String },
        (value) => { chosen.length = value; }),
      slider("Seed", { min: 1, max: 99, step: 1, value: chosen.seed, format: String },
        (value) => { chosen.seed = value; }),
      toggle("Surprise", surprise, (on) => { surprise = on; draw(); view(); }));
  }

  function undo() {
    pad.value = before;
    before = null;
    view();
    draw();
    pad.focus();
  }

  /** Continues the text; `again` replaces the last continuation by another one. */
  function write(again) {
    if (again) {
      pad.value = before;
      chosen.seed = (chosen.seed % 99) + 1;
    }
    before = pad.value;
    fill(page, pad);
    const began = performance.now();
    let count = 0;
    status.say("");
    const { temperature, length: max_tokens, seed } = chosen;
    work.run((signal) => server.stream("v1/completions", { prompt: before, temperature, max_tokens, seed },
      (part) => {
        const low = pad.scrollHeight - pad.scrollTop - pad.clientHeight < 30; // a reader above stays there
        pad.value += part;
        count += 1;
        if (low) pad.scrollTop = pad.scrollHeight;
      }, signal)).then(() => {
      if (!count) return;
      const pace = (1000 * count) / (performance.now() - began);
      if (!status.node.classList.contains("bad")) status.say(`${count} tokens, ${Math.round(pace)} per second`);
    }).finally(() => { draw(); view(); });
    draw();
  }

  /** Shows the text to edit, or shaded by surprise. */
  async function view() {
    if (!surprise || !pad.value) {
      fill(page, pad);
      return;
    }
    await work.run(async (signal) => {
      const [found] = await server.predict([pad.value], { scored: true }, signal);
      const nats = -found.log_prob;
      fill(shaded, found.tokens.map((token, place) => shade(element("span", {
        class: "word", title: `${(-found.token_scores[place]).toFixed(2)} nats`,
      }, token), -found.token_scores[place] / DARKEST)));
      fill(page, shaded);
      const each = nats / Math.max(Array.from(pad.value).length, 1) / Math.LN2;
      status.say(`${each.toFixed(2)} bits per character; the darker, the more surprising`);
    });
    draw();
  }

  return node;
}
