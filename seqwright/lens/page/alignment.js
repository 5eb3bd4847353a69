// The attention weights as a matrix or as lines, and the current step.

import { best, chosenHeads, chosenMatrix, noAttention, peak } from "./attention.js";
import { branchesAt, branchToggle } from "./branch.js";
import { bold, button, choice, element, fill, menu, paragraph, scroll, toggle } from "./elements.js";
import { heatmap, legend } from "./heatmap.js";
import { lines } from "./lines.js";
import { percent, probability, short } from "./numbers.js";
import { plural, stepName } from "./text.js";

const SIDE = 332; // pixels of the column next to the picture, and of the gap
const ROOM = 880; // pixels from which both fit
const COLUMNS = 40; // columns up to which the table shows the whole matrix

const UNPINNED = { rows: "", columns: "" }; // row and column numbers change

export const alignment = {
  name: "alignment",
  title: (trace) => (aligns(trace) ? "Alignment" : "Attention"),
  lead: (trace) => (aligns(trace)
    ? "Attention weights: which input tokens the model attends to when it produces each output token."
    : "Attention weights: which tokens of the text the model attends to."),
  depends: ["a", "kind", "layer", "head", "join", "layout", "unit", "sink"],
  unavailable: ({ trace }) => (trace.kinds.length ? null : noAttention(trace)),
  controls,
  draw,
};

/** Whether the trace aligns an output with a source, or could. */
function aligns(trace) {
  return trace.decoded;
}

function controls({ trace, state, set }) {
  const chosen = chosenHeads(trace, state);
  const joins = [["mean", "mean", "Mean over the heads"], ["max", "max", "Maximum over the heads"]];
  if (chosen.every((one) => one.importance !== null)) {
    joins.push(["weighted", "weighted", "Mean over the heads, weighted by their importance"]);
  }
  const layouts = ["matrix", "lines"].map((name) => [name, name, "Matrix or lines (m)"]);
  return [
    kindChoice(trace, trace.kinds, state, set),
    headMenus(trace, state, set),
    chosen.length > 1 && choice("Combine heads by", joins, state.join, (join) => set({ join })),
    choice("Show as", layouts, state.layout, (layout) => set({ layout })),
    unitChoice(state, set),
    toggle(trace.kind(state.kind).columns === "prefix" ? "Begin token" : "End token", state.sink,
      (sink) => set({ sink, ...UNPINNED }), "Heads without a function often attend to this token (e)"),
  ];
}

export function unitChoice(state, set) {
  const units = [["pieces", "tokens"], ["words", "words"]]
    .map(([unit, name]) => [unit, name, "Tokens of the model, or words (w)"]);
  return choice("Unit", units, state.unit, (unit) => set({ unit, ...UNPINNED }));
}

export function kindChoice(trace, kinds, state, set) {
  const every = kinds.map((kind) => [kind, trace.kind(kind)]);
  const names = every.map(([, { name }]) => name);
  const unnamed = (name, place) => !aligns(trace) || names.indexOf(name) < place; // or all are alike
  const options = every.map(([kind, { name, title }], place) => (
    [kind, unnamed(name, place) ? title : name, title]));
  const change = (kind) => set({ kind, layer: -1, head: "all", ...UNPINNED });
  return kinds.some((kind) => kind !== state.kind) && choice("Attention", options, state.kind, change);
}

/** Menus of layers and heads, if there are several. */
export function headMenus(trace, state, set) {
  const layers = trace.layers(state.kind);
  const most = Math.max(...layers.map((one) => one.heads));
  const heads = trace.attention(state.kind, state.layer)?.heads ?? most;
  const numbers = Array.from({ length: heads }, (_, head) => [String(head), String(head)]);
  return [
    layers.length > 1 && menu("Layer", [[-1, "all"], ...layers.map((one) => [one.layer, String(one.layer)])],
      state.layer, (layer) => set({ layer })),
    heads > 1 && menu("Head", [["all", "all"], ...numbers], state.head, (head) => set({ head })),
  ];
}

async function draw(page) {
  const { trace, state, colours } = page;
  const matrix = await chosenMatrix(trace, state);
  const scale = { colours, name: "ramp", low: 0, high: peak(matrix.values) };
  const row = rowOf(trace, matrix, state);
  const side = trace.follows(state.kind) && aside(page, matrix, row);
  const drawn = state.layout === "lines";
  const hint = drawn ? "Point at a line" : "Point at a cell, or use the arrow keys,";
  const readout = paragraph("readout", `${hint} to see its weight.`);
  readout.setAttribute("role", "status");
  const pinned = pins(page, matrix);
  const why = !aligns(trace) && paragraph("quiet facts",
    `${trace.absent("cross", "this model has no cross-attention")} Shown instead: `,
    `${ofWhat(trace.kind(state.kind))}.`);
  const shared = {
    width: state.width - (side && state.width >= ROOM ? SIDE : 0),
    row,
    hover: (at, column) => fill(readout, cellText(matrix, at, column)),
  };
  const pick = picker(page, matrix);
  const cells = { label: "Weights", lit: pinned.lit, cell: cellOf(trace, matrix, state), pick };
  const picture = drawn
    ? lines(matrix, { ...shared, high: scale.high, pinned, pick: pinned.pick })
    : heatmap(matrix, scale, { ...shared, ...cells });
  const colourScale = !drawn && legend(scale);
  const foot = element("div", { class: "foot" }, colourScale, notes(page, matrix, pinned.some));
  const main = element("div", { class: "main" }, why, scroll(picture), readout, foot);
  const node = element("div", { class: "columns" }, main, side);
  const listed = row ?? matrix.rowOf[Math.floor(Math.max(0, state.q) / matrix.blocks[0])];
  return { node, picture, table: shownTable(matrix, listed), whole: () => wholeTable(matrix) };
}

function ofWhat({ title }) {
  return title.charAt(0).toLowerCase() + title.slice(1);
}

/** The row of the current step; null if the queries are not steps, or if the row is missing. */
export function rowOf(trace, matrix, state) {
  const row = trace.follows(state.kind) ? matrix.rowOf[Math.floor(state.t / matrix.blocks[0])] : null;
  return row !== undefined && row < matrix.rows ? row : null;
}

function cellText({ rowLabels, columnLabels, values, columns }, row, column) {
  const weight = values[row * columns + column];
  const number = ` with weight ${short(weight, 4)} (${percent(weight)})`;
  return [bold(rowLabels[row]), " attends to ", bold(columnLabels[column]), number];
}

/** A click on a cell selects its step and its key. */
function picker({ trace, state, set }, matrix) {
  return (row, column) => {
    const query = matrix.rowOf.indexOf(row) * matrix.blocks[0];
    const key = matrix.columnOf.indexOf(column) * matrix.blocks[1];
    set({ [trace.follows(state.kind) ? "t" : "q"]: query, k: key, playing: "" });
  };
}

function cellOf(trace, matrix, state) {
  const query = trace.follows(state.kind) ? state.t : state.q;
  const row = matrix.rowOf[Math.floor(query / matrix.blocks[0])];
  const column = matrix.columnOf[Math.floor(state.k / matrix.blocks[1])];
  return state.k >= 0 && row >= 0 && column >= 0 ? [row, column] : null;
}

/** The pinned rows and columns, and the handler of a click on a word: Shift adds to the pins. */
function pins({ trace, state, set }, matrix) {
  const inside = (side) => (place) => Number.isInteger(place) && place >= 0 && place < matrix[side];
  const parse = (side) => new Set(state[side].split(",").filter(Boolean).map(Number).filter(inside(side)));
  const found = { rows: parse("rows"), columns: parse("columns") };
  const pick = (side, place, event) => {
    const held = found[side].has(place);
    const next = event.shiftKey ? new Set(found[side]) : new Set();
    if (held) next.delete(place);
    else next.add(place);
    const moves = side === "rows" && trace.follows(state.kind);
    const t = moves ? matrix.rowOf.indexOf(place) * matrix.blocks[0] : state.t;
    set({ [side]: [...next].join(), t, playing: "" });
  };
  const seen = (set) => (place) => !set.size || set.has(place);
  const some = found.rows.size + found.columns.size > 0;
  return { ...found, pick, some, lit: some && { rows: seen(found.rows), columns: seen(found.columns) } };
}

function notes({ trace, state, set }, matrix, pinned) {
  const begins = trace.kind(state.kind).columns === "prefix";
  const [mark, how] = [begins ? "begin" : "end", state.join === "max" ? "Maximum" : "Mean"];
  const hidden = percent(matrix.hidden);
  const weighted = state.join === "weighted" ? ", weighted by their importance" : "";
  const sentences = [
    matrix.count > 1 && `${how} of ${plural(matrix.count, "head")}${weighted}.`,
    matrix.hidden > 0.005 && `${hidden} of the weight is on the ${mark} token, which is hidden.`,
    Math.max(...matrix.blocks) > 1 && trace.absent("attention", "the weights are stored in blocks"),
  ];
  const link = (text, changes) => button(text, () => set(changes), { class: "link" });
  return [
    element("span", {}, sentences.filter(Boolean).join(" ")),
    pinned && link("Unpin", UNPINNED),
    isOneNumber(trace, state, matrix) && link("How is this weight computed?", { view: "number" }),
  ];
}

/** Whether the chosen cell is a weight of one head between two tokens, with known vectors. */
function isOneNumber(trace, state, matrix) {
  const [one, ...others] = chosenHeads(trace, state);
  const known = !others.length && trace.attention(state.kind, one.layer).vectors;
  return known && Math.max(...matrix.blocks) === 1 && state.unit === "pieces" && cellOf(trace, matrix, state);
}

/** The current step: its token, its largest weights, its alternatives. */
function aside(page, matrix, row) {
  const { trace, state, set } = page;
  const actions = new Map(branchesAt(trace, state.t).map((one) => [one.id, branchToggle(page, one)]));
  const link = (id) => button(trace.symbol(id), actions.get(id), {
    class: "link", "data-key": `branch ${id}`, title: "Show the output with this token",
  });
  const step = trace.document.steps[state.t];
  const line = (label, share, strong) => element("li", { class: strong && "strong" },
    element("span", { class: "name", dir: "auto" }, label),
    element("span", { class: "bar" }, element("i", { style: `width:${(100 * share).toFixed(1)}%` })),
    element("span", { class: "number" }, percent(share)));
  const looks = best(matrix, row, 5).map(([column, weight]) => line(matrix.columnLabels[column], weight));
  const others = step.top.slice(0, 5)
    .map(([id, logProb]) => (
      line(actions.has(id) ? link(id) : trace.symbol(id), probability(logProb), id === step.id)));
  const { step: name } = trace.names;
  return element("aside", { class: "side", "aria-label": `This ${name}` },
    element("p", {}, stepName(trace, state.t), ": ", bold(trace.symbol(step.id), "now"),
      ` with probability ${percent(probability(step.log_prob))}.`),
    element("h3", {}, "Attends to"), element("ul", { class: "bars" }, looks),
    element("h3", {}, `Most probable ${trace.names.symbol}s`), element("ul", { class: "bars" }, others),
    button(`More about this ${name}`, () => set({ view: "next" }), { class: "link" }));
}

/** A table of the whole matrix if it is small, else of one row. */
function shownTable(matrix, at) {
  if (matrix.columns <= COLUMNS) return wholeTable(matrix);
  const line = matrix.values.subarray(at * matrix.columns, (at + 1) * matrix.columns);
  return {
    columns: ["position", "key", `weight from ${matrix.rowLabels[at]}`],
    rows: Array.from(line, (weight, column) => [column, matrix.columnLabels[column], weight]),
  };
}

function wholeTable({ values, rows, columns, rowLabels, columnLabels }) {
  const line = (row) => [rowLabels[row], ...values.subarray(row * columns, (row + 1) * columns)];
  return { columns: ["", ...columnLabels], rows: Array.from({ length: rows }, (_, row) => line(row)) };
}
