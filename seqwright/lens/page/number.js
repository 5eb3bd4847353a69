// The computation of one attention weight: query and key, score, softmax, values, the rest of the block; and
// the gates of a recurrent layer.

import { blockName, blockSections, sublayerOf } from "./block.js";
import { noAttention } from "./attention.js";
import { bold, element, menu, notice, paragraph, scroll } from "./elements.js";
import { largest, percent, short, total } from "./numbers.js";
import { strips } from "./strips.js";
import { plural, shorten } from "./text.js";
import { attentionWeights, recurrentStep } from "./attention_weights.js";

const KEYS = 10; // drawn in the softmax; the table has all
const VALUES = 4; // drawn before the sum; the table has all
const GATES = {
  i: "i  input gate", f: "f  forget gate", g: "g  candidate", o: "o  output gate", // LSTM
  r: "r  reset gate", z: "z  update gate", n: "n  candidate", // GRU
};
const EQUATIONS = {
  lstm: { c: "c′ = f·c + i·g", h: "h′ = o·tanh(c′)" },
  gru: { h: "h′ = (1 − z)·n + z·h" },
};

export const number = {
  name: "number",
  title: "Computation",
  lead: "How one attention weight is computed, and how the block uses it, with the numbers of this model.",
  depends: ["a", "kind", "layer", "head", "q", "k", "t", "cell"],
  unavailable: ({ trace }) => (
    stored(trace).length || trace.document.recurrent.length ? null : whyNot(trace)),
  controls,
  draw,
};

/** The attentions whose vectors or block are in the trace. */
function stored(trace) {
  return trace.document.attention.filter((one) => one.heads > 0 && (one.vectors || trace.block(one)));
}

/** The chosen attention, head and query; null if the trace has the numbers of none. */
function chosen({ trace, state }) {
  const ofKind = stored(trace).filter((one) => one.kind === state.kind);
  const entry = ofKind.find((one) => one.layer === state.layer) ?? ofKind.at(-1) ?? stored(trace).at(-1);
  if (!entry) return null;
  const labels = (side) => trace.axis(trace.kind(entry.kind)[side]).map((one) => one.label);
  return {
    entry,
    head: Math.min(Number(state.head) || 0, entry.heads - 1),
    query: trace.follows(entry.kind) ? state.t : Math.max(0, Math.min(state.q, entry.queries - 1)),
    rows: labels("rows"),
    columns: labels("columns"),
  };
}

function controls(page) {
  const { trace, state, set } = page;
  const found = chosen(page);
  if (!found) return cellMenu(page);
  const { entry, head, query, rows, columns } = found;
  const here = { kind: entry.kind, layer: entry.layer, head: String(head) };
  const attentions = stored(trace).map((one) => [one, `${trace.kind(one.kind).title} ${one.layer}`]);
  const heads = Array.from({ length: entry.heads }, (_, at) => [at, String(at)]);
  const asked = trace.follows(entry.kind) ? "t" : "q";
  const places = (labels) => labels.map((label, place) => [place, `${place}  ${shorten(label, 18)}`]);
  return [
    menu("Attention", attentions, entry, (one) => set({ kind: one.kind, layer: one.layer, k: -1 })),
    heads.length > 1 && menu("Head", heads, head, (at) => set({ ...here, head: String(at) })),
    menu("From", places(rows), query, (place) => set({ ...here, [asked]: place })),
    menu("To", [[-1, "largest weight"], ...places(columns)], state.k, (k) => set({ ...here, k })),
    cellMenu(page),
  ];
}

function cellMenu({ trace, state, set }) {
  const { recurrent } = trace.document;
  const name = (one) => `${one.part} ${one.layer}${one.direction === "backward" ? ", backward" : ""}`;
  const options = recurrent.map((one, place) => [place, name(one)]);
  const shown = shownCell(trace, state);
  return options.length > 1 && menu("Recurrent layer", options, shown, (cell) => set({ cell }));
}

/** The chosen recurrent layer, by default the last one, which belongs to the decoder. */
function shownCell({ document }, state) {
  return Math.max(0, Math.min(Math.floor(state.cell ?? Infinity), document.recurrent.length - 1));
}

async function draw(page) {
  const { trace, state, colours } = page;
  const found = chosen(page);
  const weight = found?.entry.vectors ? await weightPart(trace, state, found) : null;
  const block = found ? await blockPart(trace, found) : { sections: [] };
  const cell = trace.document.recurrent.length ? await cellLines(trace, state) : [];
  const lines = [...numbered([...(weight?.sections ?? []), ...block.sections]), ...cell];
  if (!lines.length) return { node: notice(whyNot(trace)) };
  const picture = strips(lines.filter((line) => !line.hidden), state.width, colours.difference);
  const sentence = weight?.sentence ?? block.sentence ?? paragraph("facts", whyNot(trace));
  const node = element("div", {}, sentence, scroll(picture), block.why && paragraph("quiet", block.why));
  return { node, picture, table: tableOf(lines) };
}

/** The lines of sections [title, lines], with numbered titles. */
function numbered(sections) {
  return sections.flatMap(([title, lines], place) => [{ title: `${place + 1}  ${title}` }, ...lines]);
}

/** The sections of the block of an attention at the same position, or the reason why they are missing. */
async function blockPart(trace, { entry, query, rows }) {
  const block = trace.block(entry);
  const sublayer = block && sublayerOf(block, entry);
  if (!sublayer) return { sections: [], why: whyNoBlock(trace, entry) };
  const name = blockName(block, sublayer);
  const sentence = paragraph("big facts", bold(rows[query], "now"), ` in ${name}:`);
  return { sections: await blockSections(trace, block, sublayer, query), sentence };
}

/** The reason; none for a recurrent decoder, whose attention is not in a block. */
function whyNoBlock(trace, { kind }) {
  const { blocks, model } = trace.document;
  if (blocks === undefined) return "This trace has no block numbers; make it again to see them.";
  const part = kind === "enc" ? model.encoder : model.decoder;
  return part === "transformer" && trace.absent("blocks", "the trace lacks the numbers of this block");
}

/** A table of the lines with all of their numbers, counted from 0. */
function tableOf(lines) {
  const size = Math.max(...lines.map((line) => line.values?.length ?? 1));
  const row = ({ title, label, values, text }) => [title ?? label, ...(values ?? [text])];
  return { columns: ["", ...Array(size).keys()], rows: lines.map(row) };
}

function whyNot(trace) {
  if (!trace.document.heads.length) return noAttention(trace);
  return trace.absent("vectors", "the trace lacks the vectors behind the weights");
}

async function weightPart(trace, state, { entry, head, query, rows, columns }) {
  const computed = await attentionWeights(trace, entry, head, query);
  const key = state.k >= 0 && state.k < computed.weights.length ? state.k : largest(computed.weights);
  const weight = computed.weights[key];
  const sentence = paragraph("big facts", bold(rows[query], "now"), " attends to ", bold(columns[key]),
    " with weight ", element("b", { id: "weight" }, short(weight, 4)), ` (${percent(weight)}):`);
  const names = [rows[query], columns[key]].map((name) => shorten(name, 12));
  const sections = [
    ["Query and key", scoreLines(entry.vectors.score === "additive", computed, key, names)],
    [`Softmax over ${plural(columns.length, "key")}`, softmaxLines(computed, key, columns)],
    ["Weighted sum of the values", valueLines(computed, columns)],
  ];
  return { sections, sentence };
}

function scoreLines(additive, computed, key, [from, to]) {
  const { q, raw, weight, keys, products, factor, moved, scores } = computed;
  const sum = total(products[key]);
  const times = `${short(sum, 4)} × ${short(factor, 4)} = ${short(factor * sum, 4)}`;
  const plus = `${short(moved[key], 4)}; score ${short(scores[key], 4)}`;
  const lines = [
    raw && { label: `state at ${from}`, values: raw },
    { label: `${raw ? "q = state · W" : "q"}  of ${from}`, values: q },
    { label: `k  of ${to}`, values: keys[key] },
    additive && { label: "tanh(q + k)", values: q.map((one, at) => Math.tanh(one + keys[key][at])) },
    additive && { label: "w", values: weight },
    { label: additive ? "w ⊙ tanh(q + k)" : "q ⊙ k", values: products[key] },
    { label: "sum", text: short(sum, 4) },
    factor !== 1 && { label: factorName(factor, q.length), text: times },
    moved[key] !== 0 && { label: "+ position and mask", text: plus },
  ];
  return lines.filter(Boolean);
}

function factorName(factor, size) {
  return Math.abs(factor * Math.sqrt(size) - 1) < 1e-4 ? `÷ √${size}` : "× factor";
}

function softmaxLines({ scores, most, powers, weights }, key, columns) {
  const [sum, less] = [short(total(powers), 4), most < 0 ? `+ ${short(-most)}` : `− ${short(most)}`];
  const share = (place) => `${short(powers[place], 4)} / ${sum} = ${short(weights[place], 4)}`;
  return descending(weights).map((place, rank) => ({
    label: shorten(columns[place], 14),
    text: `exp(${short(scores[place])} ${less}) / ${sum} = ${share(place)}`,
    strong: place === key,
    hidden: rank >= KEYS && place !== key,
  }));
}

function valueLines({ weights, values, added, context }, columns) {
  const weighted = descending(weights).map((place, rank) => ({
    label: `${short(weights[place])} · v  of ${shorten(columns[place], 10)}`,
    values: values[place].map((value) => weights[place] * value),
    hidden: rank >= VALUES,
  }));
  const bias = added ? [{ label: "+ value bias", values: added }] : [];
  return [...weighted, ...bias, { label: "context: sum of all", values: context }];
}

function descending(weights) {
  return [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
}

async function cellLines(trace, state) {
  const layer = trace.document.recurrent[shownCell(trace, state)];
  const [reads, last] = [layer.part === "encoder", layer.steps - 1];
  const place = Math.max(0, Math.min(reads ? state.k : state.t, last));
  const t = layer.direction === "backward" ? last - place : place;
  const { gates, before, after } = await recurrentStep(trace, layer, t);
  const vectors = [
    ...Object.entries(before).map(([name, values]) => ({ label: `${name}  before`, values })),
    ...Object.entries(gates).map(([name, values]) => ({ label: GATES[name], values })),
    ...Object.entries(after).map(([name, values]) => ({ label: EQUATIONS[layer.cell][name], values })),
  ];
  const name = `The ${layer.cell.toUpperCase()} of the ${layer.part}, layer ${layer.layer}`;
  const piece = reads ? `: ${trace.axes.source[place].label}` : "";
  return [{ title: `${name}, ${layer.direction}, step ${t + 1}${piece}` }, ...vectors];
}
