// The page of forecasts: a store of the choices, and one view.

import { palette } from "./colours.js";
import { element, fill, LETTERS, menu, toggle } from "./elements.js";
import { ForecastTrace } from "./forecast_trace.js";
import { forecast } from "./forecast_view.js";
import { createPanel, followWidth, keepFocus, startIfAble } from "./panel.js";
import { createStore } from "./store.js";
import { shorten } from "./text.js";

const PADDING = 48; // horizontal pixels of a panel outside its body
const KEYS = "keys: ← → part of the forecast · l layer · h head · c column · x table · d dark · b large";

const given = JSON.parse(document.getElementById("data").textContent);
const traces = given.traces.map((one, place) => new ForecastTrace(one, place));
const palettes = { light: palette("light"), dark: palette("dark") };
const system = matchMedia("(prefers-color-scheme: dark)");
const store = createStore({
  a: 0, kind: "", layer: -1, head: "all", channel: 0, q: 0, k: -1, table: false, big: false, theme: "",
});
const [panel, tools] = [createPanel(), element("div", { class: "tools" })];
let turn = 0; // number of the latest drawing

/** The argument of the view: the choices, limited to what the trace has, and `set` to change them. */
function page() {
  const { state } = store;
  const trace = traces[Math.max(0, Math.min(traces.length - 1, Math.floor(state.a)))];
  const dark = state.theme ? state.theme === "dark" : system.matches;
  const kind = trace.kinds.includes(state.kind) ? state.kind : trace.kinds[0];
  const layers = trace.layers(kind);
  const layer = layers.some((one) => one.layer === state.layer) ? state.layer : -1;
  const head = trace.chosen({ kind, layer, head: state.head }).length ? state.head : "all";
  const within = (value, count, least = 0) => Math.max(least, Math.min(count - 1, Math.floor(value)));
  const bounded = {
    ...state, kind, layer, head, dark,
    channel: within(state.channel, trace.document.channels.length),
    q: within(state.q, layers[0].rows.length), k: within(state.k, layers[0].columns.length, -1),
    width: bodyWidth(),
  };
  return { state: bounded, set: store.set, trace, traces, colours: palettes[dark ? "dark" : "light"] };
}

function bodyWidth() {
  const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / LETTERS;
  return Math.max(320, Math.round((panel.node.clientWidth - PADDING) / scale));
}

async function render() {
  const mine = ++turn;
  document.documentElement.dataset.big = store.state.big; // first, because pictures are sized by the text
  const now = page();
  document.documentElement.dataset.theme = now.colours.theme;
  keepFocus(tools, () => fill(tools, settings(now)));
  try {
    await panel.show(forecast, now);
  } catch (error) {
    panel.showError(error);
    throw error;
  }
  if (mine === turn) document.body.dataset.ready = "forecast";
}

function settings({ state, set }) {
  const names = traces.map((one, place) => [place, one.name]);
  return [
    names.length > 1 && menu("Trace", names, state.a, (a) => set({ a })),
    toggle("Large text", state.big, (big) => set({ big }), "Large text, for a projector (b)"),
    toggle("Dark", state.dark, (dark) => set({ theme: dark ? "dark" : "light" }), "Dark or light theme (d)"),
  ];
}

function changesFor(key, { state, trace }) {
  const rows = trace.layers(state.kind)[0].rows.length;
  const row = (q) => ({ q: Math.max(0, Math.min(rows - 1, q)), k: -1 });
  const next = (options, value) => options[(options.indexOf(value) + 1) % options.length];
  switch (key) {
    case "ArrowLeft": return row(state.q - 1);
    case "ArrowRight": return row(state.q + 1);
    case "Home": return row(0);
    case "End": return row(rows - 1);
    case "Escape": return { k: -1 };
    case "l": {
      const layers = trace.layers(state.kind).map(({ layer }) => layer);
      return { layer: next([-1, ...layers], state.layer) };
    }
    case "h": {
      const [{ entry: { heads } }] = trace.chosen({ ...state, head: "all" });
      return { head: next(["all", ...Array.from({ length: heads }, (_, n) => String(n))], state.head) };
    }
    case "c": return { channel: (state.channel + 1) % trace.document.channels.length };
    case "x": return { table: !state.table };
    case "d": return { theme: state.dark ? "light" : "dark" };
    case "b": return { big: !state.big };
    default: return null;
  }
}

function start() {
  const { version, model } = traces[0].document;
  const facts = [
    `Seqwright ${version}`, `${model.network}, ${model.parameters.toLocaleString("en")} parameters`,
    `weights ${shorten(model.weights, 24)}`, "this page makes no network requests", KEYS,
  ];
  const title = element("h1", { id: "tab-forecast" }, shorten(given.title || "Model trace", 60));
  document.body.append(element("header", { class: "top" }, title, tools), element("main", {}, panel.node),
    element("footer", {}, facts.join(" · ")));
  store.listen(render);
  system.addEventListener("change", render);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select")) return;
    const changes = changesFor(event.key, page());
    if (!changes) return;
    event.preventDefault();
    store.set(changes);
  });
  followWidth(panel.node, render);
}

startIfAble(start);
