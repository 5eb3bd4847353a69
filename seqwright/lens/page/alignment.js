// Where the model looked: the weights as a matrix or as lines, and the current step in words.

import { best, chosenHeads, chosenMatrix, peak } from "./attention.js";
import { branchesAt, turner } from "./branch.js";
import { bold, button, choice, element, fill, menu, paragraph, scroll, toggle } from "./elements.js";
import { heatmap, legend } from "./heatmap.js";
import { lines } from "./lines.js";
import { percent, probability, short } from "./numbers.js";
import { plural } from "./text.js";
import { KINDS } from "./trace.js";

const SIDE = 332; // pixels of the column beside the picture, and of the gap
const ROOM = 880; // pixels from which there is room for both
const COLUMNS = 40; // columns of a matrix up to which its table is one, too

const UNPINNED = { rows: "", columns: "" }; // places are no longer what they were

export const alignment = {
  name: "alignment",
  title: "Alignment",
  lead: "Which part of the input the model looked at while it said each part of the output.",
  depends: ["a", "kind", "layer", "head", "join", "layout", "unit", "sink"],
  why: ({ trace }) => (trace.kinds.length ? null : trace.absent("cross", "this model has no attention")),
  controls,
  draw,
};

function controls({ trace, state, set }) {
  const chosen = chosenHeads(trace, state);
  const joins = [["mean", "mean", "The mean of the heads"], ["max", "max", "The largest of the heads"]];
  if (chosen.every((one) => one.importance !== null)) {
    joins.push(["weighted", "weighted", "The mean of the heads, weighted by their importance"]);
  }
  const layouts = ["matrix", "lines"].map((name) => [name, name, "Cells or lines (m)"]);
  return [
    kindChoice(trace.kinds, state, set),
    headMenus(trace, state, set),
    chosen.length > 1 && choice("Join heads by", joins, state.join, (join) => set({ join })),
    choice("Shown as", layouts, state.layout, (layout) => set({ layout })),
    unitChoice(state, set),
    toggle(state.kind === "dec" ? "Begin mark" : "End mark", state.sink, (sink) => set({ sink, ...UNPINNED }),
      "Weight on the mark is often a way of not looking (e)"),
  ];
}

export function unitChoice(state, set) {
  const units = ["pieces", "words"].map((name) => [name, name, "What the model reads, or its words (w)"]);
  return choice("Between", units, state.unit, (unit) => set({ unit, ...UNPINNED }));
}

export function kindChoice(kinds, state, set) {
  const options = kinds.map((kind) => [kind, KINDS[kind].name, KINDS[kind].title]);
  const change = (kind) => set({ kind, layer: -1, head: "all", ...UNPINNED });
  return kinds.some((kind) => kind !== state.kind) && choice("Which attention", options, state.kind, change);
}

/** Menus of layers and heads, where there is more than one. */
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
  const row = rowOf(matrix, state);
  const beside = state.kind !== "enc" && aside(page, matrix, row);
  const drawn = state.layout === "lines";
  const hint = drawn ? "Point at a line" : "Point, or move with the arrow keys,";
  const readout = paragraph("readout", `${hint} to read a weight.`);
  readout.setAttribute("role", "status");
  const pinned = pins(page, matrix);
  const shared = {
    width: state.width - (beside && state.width >= ROOM ? SIDE : 0),
    row,
    hover: (at, column) => fill(readout, said(matrix, at, column)),
  };
  const pick = picker(page, matrix);
  const cells = { label: "Weights", lit: pinned.lit, cell: cellOf(matrix, state), pick };
  const picture = drawn
    ? lines(matrix, { ...shared, high: scale.high, pinned, pick: pinned.pick })
    : heatmap(matrix, scale, { ...shared, ...cells });
  const colourScale = !drawn && legend(scale);
  const foot = element("div", { class: "foot" }, colourScale, notes(page, matrix, pinned.some));
  const main = element("div", { class: "main" }, scroll(picture), readout, foot);
  const node = element("div", { class: "beside" }, main, beside);
  const listed = row ?? matrix.rowOf[Math.floor(Math.max(0, state.q) / matrix.blocks[0])];
  return { node, picture, table: shownTable(matrix, listed), whole: () => wholeTable(matrix) };
}

/** The row of the current step; null where the queries are not steps, or there are fewer of them. */
export function rowOf(matrix, state) {
  const row = state.kind === "enc" ? null : matrix.rowOf[Math.floor(state.t / matrix.blocks[0])];
  return row !== undefined && row < matrix.rows ? row : null;
}

function said({ rowLabels, columnLabels, values, columns }, row, column) {
  const weight = values[row * columns + column];
  const number = ` with weight ${short(weight, 4)} (${percent(weight)})`;
  return [bold(rowLabels[row]), " looks at ", bold(columnLabels[column]), number];
}

/** A click on a cell goes to its step, and remembers its key. */
function picker({ state, set }, matrix) {
  return (row, column) => {
    const query = matrix.rowOf.indexOf(row) * matrix.blocks[0];
    const key = matrix.columnOf.indexOf(column) * matrix.blocks[1];
    set({ [state.kind === "enc" ? "q" : "t"]: query, k: key, playing: "" });
  };
}

function cellOf(matrix, state) {
  const query = state.kind === "enc" ? state.q : state.t;
  const row = matrix.rowOf[Math.floor(query / matrix.blocks[0])];
  const column = matrix.columnOf[Math.floor(state.k / matrix.blocks[1])];
  return state.k >= 0 && row >= 0 && column >= 0 ? [row, column] : null;
}

/** The pinned rows and columns, which are lit, and what a click on a word does to them: Shift adds. */
function pins({ state, set }, matrix) {
  const inside = (side) => (place) => Number.isInteger(place) && place >= 0 && place < matrix[side];
  const parse = (side) => new Set(state[side].split(",").filter(Boolean).map(Number).filter(inside(side)));
  const found = { rows: parse("rows"), columns: parse("columns") };
  const pick = (side, place, event) => {
    const held = found[side].has(place);
    const next = event.shiftKey ? new Set(found[side]) : new Set();
    if (held) next.delete(place);
    else next.add(place);
    const moves = side === "rows" && state.kind !== "enc";
    const t = moves ? matrix.rowOf.indexOf(place) * matrix.blocks[0] : state.t;
    set({ [side]: [...next].join(), t, playing: "" });
  };
  const seen = (set) => (place) => !set.size || set.has(place);
  const some = found.rows.size + found.columns.size > 0;
  return { ...found, pick, some, lit: some && { rows: seen(found.rows), columns: seen(found.columns) } };
}

function notes({ trace, state, set }, matrix, pinned) {
  const [mark, how] = [state.kind === "dec" ? "begin" : "end", state.join === "max" ? "largest" : "mean"];
  const hidden = percent(matrix.hidden);
  const weighted = state.join === "weighted" ? ", weighted by their importance" : "";
  const said = [
    matrix.count > 1 && `The ${how} of ${plural(matrix.count, "head")}${weighted}.`,
    matrix.hidden > 0.005 && `${hidden} of the weight goes to the ${mark} mark and is not shown.`,
    Math.max(...matrix.blocks) > 1 && trace.absent("attention", "the weights were stored in blocks"),
  ];
  const link = (text, changes) => button(text, () => set(changes), { class: "link" });
  return [
    element("span", {}, said.filter(Boolean).join(" ")),
    pinned && link("Unpin", UNPINNED),
    isOneNumber(trace, state, matrix) && link("How was this number computed?", { view: "number" }),
  ];
}

/** Whether the chosen cell is a weight whose vectors are known: of one head, from one piece to one piece. */
function isOneNumber(trace, state, matrix) {
  const [one, ...others] = chosenHeads(trace, state);
  const known = !others.length && trace.attention(state.kind, one.layer).vectors;
  return known && Math.max(...matrix.blocks) === 1 && state.unit === "pieces" && cellOf(matrix, state);
}

/** The step in words: what was said, where it looked, what else it could have said. */
function aside(page, matrix, row) {
  const { trace, state, set } = page;
  const turns = new Map(branchesAt(trace, state.t).map((one) => [one.id, turner(page, one)]));
  const link = (id) => button(trace.symbol(id), turns.get(id), {
    class: "link", "data-key": `branch ${id}`, title: "What would have followed",
  });
  const step = trace.document.steps[state.t];
  const line = (label, share, strong) => element("li", { class: strong && "strong" },
    element("span", { class: "name", dir: "auto" }, label),
    element("span", { class: "bar" }, element("i", { style: `width:${(100 * share).toFixed(1)}%` })),
    element("span", { class: "number" }, percent(share)));
  const looks = best(matrix, row, 5).map(([column, weight]) => line(matrix.columnLabels[column], weight));
  const others = step.top.slice(0, 5)
    .map(([id, logProb]) => (
      line(turns.has(id) ? link(id) : trace.symbol(id), probability(logProb), id === step.id)));
  return element("aside", { class: "side", "aria-label": "This step" },
    element("p", {}, "Step ", bold(state.t + 1), " says ", bold(trace.symbol(step.id), "now"),
      ` with probability ${percent(probability(step.log_prob))}.`),
    element("h3", {}, "It looks at"), element("ul", { class: "bars" }, looks),
    element("h3", {}, "It could have said"), element("ul", { class: "bars" }, others),
    button("More of the next piece", () => set({ view: "next" }), { class: "link" }));
}

/** A table of the whole where that can be read, else of one row. */
function shownTable(matrix, at) {
  if (matrix.columns <= COLUMNS) return wholeTable(matrix);
  const line = matrix.values.subarray(at * matrix.columns, (at + 1) * matrix.columns);
  return {
    columns: ["place", "looked at", `weight from ${matrix.rowLabels[at]}`],
    rows: Array.from(line, (weight, column) => [column, matrix.columnLabels[column], weight]),
  };
}

function wholeTable({ values, rows, columns, rowLabels, columnLabels }) {
  const line = (row) => [rowLabels[row], ...values.subarray(row * columns, (row + 1) * columns)];
  return { columns: ["", ...columnLabels], rows: Array.from({ length: rows }, (_, row) => line(row)) };
}
