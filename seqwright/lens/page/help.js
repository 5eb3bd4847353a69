// The keyboard, and the dialog that lists it.

import { chosenHeads } from "./attention.js";
import { button, element } from "./elements.js";
import { started } from "./story.js";

const MOVES = /^(?:Arrow|Home|End|Page)/; // keys that a slider wants for itself
const LIST = [
  ["← →", "one step of the output back or on; inside a matrix, from cell to cell"],
  ["Home End", "the first and the last step"],
  ["Space", "play and pause"],
  ["1 … 8", "the views, from left to right"],
  ["l L", "the next layer, the one before"],
  ["h H", "the next head, the one before"],
  ["w", "between words or pieces"],
  ["m", "matrix or lines"],
  ["e", "show or hide the end mark"],
  ["x", "the values as a table"],
  ["Esc", "from a branch back to the output"],
  ["d", "dark or light"],
  ["b", "big letters, for a projector"],
  ["?", "this list"],
];

export function createHelp() {
  const row = ([keys, meaning]) => [
    element("dt", {}, keys.split(" ").map((key) => element("kbd", {}, key))),
    element("dd", {}, meaning),
  ];
  const dialog = element("dialog", { class: "help", "aria-label": "Keyboard" },
    element("h2", {}, "Keyboard"), element("dl", {}, LIST.map(row)),
    element("p", { class: "quiet" }, "The address of the page holds what you see: copy it to share it. ",
      "Steps, layers and heads in it count from 0."),
    button("Close", () => dialog.close(), { class: "primary" }));
  return dialog;
}

/** Keys that work wherever nothing else wants them. */
export function listenToKeys(page, views, help) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || help.open) return;
    if (event.target.closest("select") || (event.target.closest("input") && MOVES.test(event.key))) return;
    const { state, set, trace } = page();
    const changes = keyed(event, state, trace, views);
    if (event.key === "?") help.showModal();
    else if (changes) set(changes);
    else return;
    event.preventDefault();
  });
}

function keyed(event, state, trace, views) {
  const step = (t) => ({ t: Math.max(0, Math.min(trace.length - 1, t)), playing: "" });
  switch (event.key) {
    case "ArrowLeft": return step(state.t - 1);
    case "ArrowRight": return step(state.t + 1);
    case "Home": return step(0);
    case "End": return step(trace.length - 1);
    case " ":
      if (event.target.closest("button")) return null;
      return state.playing ? { playing: "" } : started(trace, state);
    case "l": return turned(trace, state, "layer", 1);
    case "L": return turned(trace, state, "layer", -1);
    case "h": return turned(trace, state, "head", 1);
    case "H": return turned(trace, state, "head", -1);
    case "w": return { unit: state.unit === "words" ? "pieces" : "words", rows: "", columns: "" };
    case "m": return { layout: state.layout === "lines" ? "matrix" : "lines" };
    case "e": return { sink: !state.sink, rows: "", columns: "" };
    case "x": return { table: !state.table };
    case "Escape": return state.branch ? { branch: "" } : null;
    case "d": return { theme: state.dark ? "light" : "dark" };
    case "b": return { big: !state.big };
    default: return views[Number(event.key) - 1] ? { view: views[Number(event.key) - 1].name } : null;
  }
}

/** The next of the layers or heads; all of them together is one of the choices. */
function turned(trace, state, name, by) {
  const all = name === "layer" ? { layer: -1, head: "all" } : { head: "all" };
  const of = (one) => (name === "layer" ? one.layer : String(one.head));
  const options = [all[name], ...new Set(chosenHeads(trace, { ...state, ...all }).map(of))];
  return { ...all, [name]: options[(options.indexOf(state[name]) + by + options.length) % options.length] };
}
