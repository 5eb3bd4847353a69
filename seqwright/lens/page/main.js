// The page: a store of the choices, the summary on top, and one view at a time below.

import { chosenHeads } from "./attention.js";
import { palette } from "./colours.js";
import { button, element, fill, LETTERS, menu, toggle } from "./elements.js";
import { createHelp, listenToKeys } from "./help.js";
import { checkpoints } from "./learning.js";
import { createPanel, followWidth, keepFocus, startIfAble, titleOf } from "./panel.js";
import { createStore } from "./store.js";
import { createStory } from "./story.js";
import { shorten } from "./text.js";
import { Trace } from "./trace.js";
import { viewsOf } from "./views.js";

const PACE = { steps: 700, learning: 1000 }; // milliseconds per step while playing
const SHORTCUTS = "Keyboard shortcuts";
const PADDING = 48; // horizontal pixels of a panel outside its body

const given = JSON.parse(document.getElementById("data").textContent);
const traces = given.traces.map((document, place) => new Trace(document, place));
const palettes = { light: palette("light"), dark: palette("dark") };
const system = matchMedia("(prefers-color-scheme: dark)");
const found = checkpoints({ traces, learning: given.learning });
const views = viewsOf(traces);
const first = { trace: traces[0], traces, learning: given.learning };
const usual = views.find((one) => !one.unavailable?.(first));
const store = createStore({
  a: found.at(-1)?.place ?? 0, b: 1, // the trace, and the one to compare with
  t: traces[0].given ? traces[0].length - 1 : 0, // the step: of a given text, what comes after it
  view: found.length > 1 ? "learning" : usual.name,
  kind: traces[0].kinds[0] ?? "cross", layer: -1, head: "all", q: -1, k: -1, cell: null, symbol: -1,
  join: "mean", layout: "matrix", unit: "pieces", sink: false, rows: "", columns: "", table: false,
  off: "", branch: "",
  temperature: 1, topk: 0, topp: 1, penalty: null, big: false, theme: "", playing: "",
});
const [story, panel, help] = [createStory(store), createPanel(), createHelp()];
const tabs = element("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: turnTabs });
const tools = element("div", { class: "tools" });
let turn = 0; // number of the latest drawing

/** The argument of a view: the choices, limited to the bounds of the trace, and `set` to change them. */
function page() {
  const trace = traces[placeOf(store.state.a, traces.length)];
  const dark = store.state.theme ? store.state.theme === "dark" : system.matches;
  const state = { ...withinBounds(store.state, trace), dark, width: bodyWidth(panel.node) };
  const colours = palettes[dark ? "dark" : "light"];
  return { state, set: store.set, trace, traces, learning: given.learning, colours };
}

/** The width of a panel's body in the units of pictures. */
function bodyWidth(node) {
  const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / LETTERS;
  return Math.max(240, Math.round((node.clientWidth - PADDING) / scale));
}

/** The choices limited to what the trace has: an address may contain anything. */
function withinBounds(state, trace) {
  const one = (value, ...options) => (options.includes(value) ? value : options[0]);
  const kind = one(state.kind, trace.kinds[0] ?? "cross", ...trace.kinds);
  const layer = trace.attention(kind, state.layer)?.heads ? state.layer : -1;
  const heads = chosenHeads(trace, { kind, layer, head: "all" });
  const weighted = heads.every(({ importance }) => importance !== null) ? ["weighted"] : [];
  return {
    ...state, kind, layer, head: one(state.head, "all", ...heads.map(({ head }) => String(head))),
    join: one(state.join, "mean", "max", ...weighted), layout: one(state.layout, "matrix", "lines"),
    unit: one(state.unit, "pieces", "words"),
    a: placeOf(state.a, traces.length), t: placeOf(state.t, trace.length),
    q: placeOf(state.q, trace.axes[trace.kind(kind).rows].length, -1), k: placeOf(state.k, Infinity, -1),
    temperature: between(state.temperature, 0.1, 3), topk: placeOf(state.topk, 51),
    topp: between(state.topp, 0.05, 1),
  };
}

function placeOf(value, count, least = 0) {
  return between(Math.floor(value), least, count - 1);
}

function between(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

async function render() {
  const mine = ++turn;
  document.documentElement.dataset.big = store.state.big; // first, because pictures are sized by the text
  const now = page();
  const view = views.find((one) => one.name === now.state.view) ?? usual;
  document.documentElement.dataset.theme = now.colours.theme;
  keepFocus(tools, () => fill(tools, settings(now)));
  views.forEach((one, place) => {
    const tab = tabs.children[place];
    tab.setAttribute("aria-selected", one === view);
    tab.tabIndex = one === view ? 0 : -1;
    tab.classList.toggle("empty", Boolean(one.unavailable?.(now)));
  });
  const ends = await Promise.allSettled([story.show(now), panel.show(view, now)]);
  if (mine !== turn) return;
  const failed = ends.find(({ status }) => status === "rejected");
  if (!failed) {
    document.body.dataset.ready = view.name;
    return;
  }
  panel.showError(failed.reason);
  throw failed.reason;
}

function settings({ state, set }) {
  const names = traces.map((one, place) => [place, one.name]);
  return [
    names.length > 1 && menu("Trace", names, state.a, (a) => set({ a })),
    toggle("Large text", state.big, (big) => set({ big }), "Large text, for a projector (b)"),
    toggle("Dark", state.dark, (dark) => set({ theme: dark ? "dark" : "light" }), "Dark or light theme (d)"),
    button("?", () => help.showModal(), { "aria-label": SHORTCUTS, title: SHORTCUTS, "data-key": "help" }),
  ];
}

function turnTabs(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const place = ([...tabs.children].indexOf(event.target) + by + views.length) % views.length;
  store.set({ view: views[place].name });
  tabs.children[place].focus();
}

/** Moves to the next step, or to the next checkpoint of the training, while playing. */
function createClock() {
  let [running, clock] = ["", null];
  return ({ playing }) => {
    if (playing === running) return;
    running = playing;
    clearInterval(clock);
    const on = { steps: nextStep, learning: nextCheckpoint }[playing];
    if (on) clock = setInterval(() => store.set(on()), PACE[playing]);
  };
}

function nextStep() {
  const { state, trace } = page();
  return state.t + 1 < trace.length ? { t: state.t + 1 } : { playing: "" };
}

function nextCheckpoint() {
  const now = page();
  const found = checkpoints(now);
  const place = found.findIndex((one) => one.place === now.state.a);
  return { a: found[(place + 1) % found.length].place };
}

function start() {
  const { version, model } = traces[0].document;
  const facts = [
    `Seqwright ${version}`,
    `${model.parameters.toLocaleString("en")} parameters`,
    ...(model.member ? [`model ${model.member.join(" of ")} of an ensemble`] : []),
    `weights ${shorten(model.weights, 24)}`,
    "this page makes no network requests",
  ];
  tabs.append(...views.map((view, place) => {
    const title = titleOf(view, traces[0]);
    return button(title, () => store.set({ view: view.name }), {
      role: "tab", id: `tab-${view.name}`, "aria-controls": "panel", title: `${title} (${place + 1})`,
    });
  }));
  const title = element("h1", {}, shorten(given.title || "Model trace", 60));
  document.body.append(element("header", { class: "top" }, title, tools),
    element("main", {}, story.node, tabs, panel.node), element("footer", {}, facts.join(" · ")), help);
  const tick = createClock();
  store.listen((state) => {
    tick(state);
    render();
  });
  system.addEventListener("change", render);
  listenToKeys(page, views, help);
  followWidth(panel.node, render);
}

startIfAble(start);
