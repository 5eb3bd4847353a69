// Keyboard shortcuts, and the dialog that lists them.

import { chosenHeads } from "./attention.js";
import { button, element } from "./elements.js";
import { started } from "./story.js";

const MOVES = /^(?:Arrow|Home|End|Page)/; // keys that a slider handles itself
const LIST = [
  ["← →", "previous or next step; inside a matrix, move between cells"],
  ["Home End", "first or last step"],
  ["Space", "play or pause"],
  ["1 … 9", "switch to a view, from left to right"],
  ["l L", "next or previous layer"],
  ["h H", "next or previous head"],
  ["w", "words or tokens"],
  ["m", "matrix or lines"],
  ["e", "show or hide the end token"],
  ["x", "show the values as a table"],
  ["Esc", "close the branch"],
  ["d", "dark or light theme"],
  ["b", "large text, for a projector"],
  ["?", "show this list"],
];

export function createHelp() {
  const row = ([keys, meaning]) => [
    element("dt", {}, keys.split(" ").map((key) => element("kbd", {}, key))),
    element("dd", {}, meaning),
  ];
  const dialog = element("dialog", { class: "help", "aria-label": "Keyboard" },
    element("h2", {}, "Keyboard"), element("dl", {}, LIST.map(row)),
    element("p", { class: "quiet" }, "The address of the page stores the current view: ",
      "copy it to share the view. Steps, layers and heads in the address count from 0."),
    button("Close", () => dialog.close(), { class: "primary" }));
  return dialog;
}

/** Handles keys that no control handles itself. */
export function listenToKeys(page, views, help) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || help.open) return;
    if (event.target.closest("select") || (event.target.closest("input") && MOVES.test(event.key))) return;
    const { state, set, trace } = page();
    const changes = changesFor(event, state, trace, views);
    if (event.key === "?") help.showModal();
    else if (changes) set(changes);
    else return;
    event.preventDefault();
  });
}

function changesFor(event, state, trace, views) {
  const step = (t) => ({ t: Math.max(0, Math.min(trace.length - 1, t)), playing: "" });
  switch (event.key) {
    case "ArrowLeft": return step(state.t - 1);
    case "ArrowRight": return step(state.t + 1);
    case "Home": return step(0);
    case "End": return step(trace.length - 1);
    case " ":
      if (event.target.closest("button")) return null;
      return state.playing ? { playing: "" } : started(trace, state);
    case "l": return cycled(trace, state, "layer", 1);
    case "L": return cycled(trace, state, "layer", -1);
    case "h": return cycled(trace, state, "head", 1);
    case "H": return cycled(trace, state, "head", -1);
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

/** The next layer or head; "all" is one of the choices. */
function cycled(trace, state, name, by) {
  const all = name === "layer" ? { layer: -1, head: "all" } : { head: "all" };
  const of = (one) => (name === "layer" ? one.layer : String(one.head));
  const options = [all[name], ...new Set(chosenHeads(trace, { ...state, ...all }).map(of))];
  return { ...all, [name]: options[(options.indexOf(state[name]) + by + options.length) % options.length] };
}
