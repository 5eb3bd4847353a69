// Parts that several panels use.

import { button, element, fill } from "./lens/elements.js";

const PAUSE = 280; // milliseconds without a key before a text is sent
const MOST = 20; // bars
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f98", "#b3a400"];

/** A text field that grows with its text. `change` is called after a pause, `send` for Ctrl+Enter. */
export function field(label, change, { placeholder = "", send = change, rows = 6 } = {}) {
  let timer = 0;
  const node = element("textarea", {
    "aria-label": label, placeholder, rows, dir: "auto", spellcheck: "false",
    oninput: () => { clearTimeout(timer); timer = setTimeout(change, PAUSE); },
    onkeydown: (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      clearTimeout(timer);
      send();
    },
  });
  return node;
}

/** A line that tells what happens; errors are announced. */
export function statusLine() {
  const node = element("p", { class: "status quiet", role: "status" });
  return {
    node,
    say(text, bad = false) {
      node.classList.toggle("bad", bad);
      fill(node, text);
    },
  };
}

/** Only the latest of several calls counts: earlier ones are aborted. `run(task)` passes a signal. */
export function latest(status) {
  let current = null;
  return {
    stop() {
      current?.abort();
      current = null;
    },
    async run(task) {
      current?.abort();
      const own = new AbortController();
      current = own;
      try {
        await task(own.signal);
      } catch (error) {
        if (error.name !== "AbortError") status.say(error.message, true);
      } finally {
        if (current === own) current = null;
      }
    },
    get busy() {
      return current !== null;
    },
  };
}

/** Bars of the largest shares by name, the first one strong. `pick(name)` makes the names buttons. */
export function bars(probabilities, pick = null) {
  // an object has its whole numbers first, so that labels such as "7" would lose their order
  const shares = Object.entries(probabilities).sort(([, one], [, other]) => other - one).slice(0, MOST);
  return element("ol", { class: "bars wide" }, shares.map(([name, share], place) => {
    const length = element("i");
    length.style.inlineSize = `${(100 * share).toFixed(1)}%`;
    const shown = { class: "name", dir: "auto", title: name };
    return element("li", { class: place ? null : "strong" },
      pick ? button(name, () => pick(name), { ...shown, class: "name link", title: `“${name}” is right` })
        : element("span", shown, name),
      element("span", { class: "bar" }, length), element("span", { class: "number" }, percent(share)));
  }));
}

export function percent(share) {
  return share > 0 && share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** A colour for each name, always the same one within a page. */
export function colours() {
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, COLOURS[known.size % COLOURS.length]);
    return known.get(name);
  };
}

export function copyButton(text) {
  return button("Copy", async (event) => {
    const pressed = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text());
      pressed.textContent = "Copied";
    } catch {
      pressed.textContent = "Not allowed";
    }
    setTimeout(() => { pressed.textContent = "Copy"; }, 1200);
  });
}

/** Shades a part of a text by a share from 0 to 1. */
export function shade(node, share) {
  node.style.setProperty("--share", Math.max(0, Math.min(1, share)).toFixed(3));
  return node;
}
