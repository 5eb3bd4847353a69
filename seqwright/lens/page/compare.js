// Two traces of the same text: two models, or two checkpoints.

import { headMenus, kindChoice, rowOf, unitChoice } from "./alignment.js";
import { chosenMatrix, peak } from "./attention.js";
import { diffed } from "./diff.js";
import { canvas, element, menu, notice, paragraph, scroll, svg, words } from "./elements.js";
import { heatmap, legend } from "./heatmap.js";
import { divergence, short } from "./numbers.js";
import { plain } from "./scripts.js";
import { plural, shorten } from "./text.js";

const HEIGHT = 110; // pixels of the bars
const ROOM = 1000; // pixels from which three matrices fit side by side

export const compare = {
  name: "compare",
  title: "Compare",
  lead: "The same text in two models: their outputs, the divergence at each step, and their attention.",
  depends: ["a", "b", "kind", "layer", "head", "unit"],
  unavailable: ({ traces }) => (traces.length > 1 ? null
    : "A comparison needs two traces. Make them with: seqwright look RUN TEXT --against OTHER -o page.html"),
  controls,
  draw,
};

/** The second trace: the chosen one, or the first that is not the current one. */
function second({ traces, state }) {
  const chosen = state.b !== state.a && traces[state.b];
  const place = chosen ? state.b : traces.findIndex((_, index) => index !== state.a);
  return { place, other: traces[place] };
}

function controls(page) {
  const { traces, trace, state, set } = page;
  const { place, other } = second(page);
  const names = traces.map((one, index) => [index, one.name]);
  const shared = trace.kinds.filter((kind) => other.kinds.includes(kind));
  return [
    menu("A", names, state.a, (a) => set({ a, b: a === place ? state.a : place })),
    menu("B", names.filter(([index]) => index !== state.a), place, (b) => set({ b })),
    kindChoice(trace, shared, state, set),
    shared.includes(state.kind) && headMenus(trace, state, set),
    unitChoice(state, set),
  ];
}

async function draw(page) {
  const { trace } = page;
  const { other } = second(page);
  const apart = await distances(trace, other);
  const steps = bars(page, apart);
  const looks = await matrices(page, other);
  const node = element("div", {}, outputs(trace.document, other.document),
    element("h3", {}, `Divergence of the ${trace.names.symbol} distributions`), scroll(steps),
    paragraph("quiet", "KL divergence of B from A in nats, from the stored probabilities: a lower bound. ",
      trace.decoded && "Pale bars: the outputs differ before this step, so the contexts are different."),
    element("h3", {}, "Attention"), looks.node);
  const table = {
    columns: ["step", "token of A", "token of B", "divergence", "outputs so far"],
    rows: apart.map(({ value, same }, t) => (
      [t + 1, tokenAt(trace, t), tokenAt(other, t), value, same ? "equal" : "different"])),
  };
  return { node, picture: looks.picture ?? steps, table };
}

function tokenAt(trace, t) {
  return trace.axes.steps[t].label;
}

function outputs(one, two) {
  const both = (key) => `${short(one.output[key])} and ${short(two.output[key])}`;
  return element("div", { class: "card" },
    paragraph("big", diffed(one.output.text, two.output.text)),
    paragraph("quiet", element("del", {}, "only A"), "  ", element("ins", {}, "only B"),
      ` · log p ${both("log_prob")}`, one.output.score !== null && ` · score ${both("score")}`),
    one.text !== two.text && element("p", {}, "The two traces are of different texts."));
}

/** KL(A ‖ B) at each common step, with tokens matched by text; `same`: the outputs are equal so far. */
async function distances(trace, other) {
  const found = [];
  let same = true;
  for (let t = 0; t < Math.min(trace.length, other.length); t++) {
    const [left, right] = await Promise.all([shares(trace, t), shares(other, t)]);
    found.push({ value: divergence(left, right), same });
    same &&= plain(tokenAt(trace, t)) === plain(tokenAt(other, t));
  }
  return found;
}

async function shares(trace, t) {
  const { ids, logits } = await trace.logits(t);
  const { total } = trace.document.steps[t];
  return ids.map((id, place) => [trace.document.symbols[id], Math.exp(logits[place] - total)]);
}

function bars({ trace, state, set }, apart) {
  const width = Math.min(64, (state.width - 20) / apart.length);
  const most = Math.max(...apart.map((one) => one.value), 1e-9);
  const picture = canvas("Divergence at each step", apart.length * width + 20, HEIGHT + 30);
  apart.forEach(({ value, same }, t) => {
    const [x, label] = [8 + t * width, tokenAt(trace, t)];
    const tall = Math.max(1.5, ((HEIGHT - 18) * value) / most);
    const pale = trace.decoded && !same; // other predictions do not depend on those before them
    const colour = { fill: t === state.t ? "var(--accent)" : "var(--data)", "fill-opacity": pale ? 0.35 : 1 };
    const middle = { "text-anchor": "middle", "font-size": 12 };
    const text = (label, y, fill) => words(label, x + width / 2 - 2, y, { ...middle, fill });
    picture.append(svg("g", { class: "token", onclick: () => set({ t, playing: "" }) },
      svg("title", {}, `${label}: ${short(value, 4)}`),
      svg("rect", { x, y: HEIGHT - tall, width: Math.max(1, width - 4), height: tall, rx: 2, ...colour }),
      width >= 30 && text(short(value, 2), HEIGHT - tall - 9, "var(--quiet)"),
      width >= 30 && text(shorten(label, Math.floor(width / 8)), HEIGHT + 12, "var(--ink)")));
  });
  return picture;
}

/** A, B and B − A side by side; the difference covers the common rows and columns. */
async function matrices({ trace, state, colours }, other) {
  const lacking = [trace, other].find((one) => !one.kinds.includes(state.kind));
  if (lacking) return { node: notice(lacking.absent(state.kind, `${lacking.name} has no such attention`)) };
  const has = other.layers(state.kind).some((one) => (
    [-1, one.layer].includes(state.layer) && (state.head === "all" || one.heads > Number(state.head))));
  const choices = { ...state, sink: true };
  const a = await chosenMatrix(trace, choices);
  const b = await chosenMatrix(other, has ? choices : { ...choices, layer: -1, head: "all" });
  const change = subtract(a, b);
  const width = state.width >= ROOM ? (state.width - 48) / 3 : state.width;
  const figure = (label, matrix, name, low, high) => {
    const scale = { colours, name, low, high };
    const row = rowOf(trace, matrix, state);
    const picture = heatmap(matrix, scale, { width, maxHeight: 420, label, row });
    return element("figure", {}, element("figcaption", {}, label), scroll(picture), legend(scale));
  };
  const high = Math.max(peak(a.values), peak(b.values));
  const figures = [figure("A", a, "ramp", 0, high), figure("B", b, "ramp", 0, high)];
  const reach = change && peak(change.values.map(Math.abs));
  if (change) figures.push(figure("B − A", change, "difference", -reach, reach));
  const three = element("div", { class: "three" }, figures);
  const node = element("div", {}, three, paragraph("quiet", notes(a, b, change, has)));
  return { node, picture: figures.at(-1).querySelector(".heatmap") };
}

function notes(a, b, change, has) {
  const fewer = change && change.rows < Math.max(a.rows, b.rows);
  return [
    !has && "B does not have this layer or head: all of its heads are combined.",
    !change && "The matrices cannot be subtracted: their tokens differ. Try words.",
    fewer && `B − A has ${plural(change.rows, "row")}: up to the first difference of the outputs.`,
  ].filter(Boolean).join(" ");
}

/** B − A over the common first rows; null if there are none, or if the columns differ. */
function subtract(a, b) {
  const alike = a.columnLabels.map(plain).join("\n") === b.columnLabels.map(plain).join("\n");
  const apart = a.rowLabels.findIndex((label, place) => plain(label) !== plain(b.rowLabels[place]));
  const rows = apart < 0 ? a.rows : apart;
  if (!alike || rows === 0) return null;
  const values = a.values.slice(0, rows * a.columns).map((value, index) => b.values[index] - value);
  return { ...a, values, rows, rowLabels: a.rowLabels.slice(0, rows) };
}
