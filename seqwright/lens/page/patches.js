// The self-attention of a vision Transformer over the image, from any patch: of any head, and through all
// layers (rollout, Abnar & Zuidema 2020), next to the saliency of the label.

import { headMenus } from "./alignment.js";
import { chosenMatrix } from "./attention.js";
import { bold, choice, element, paragraph } from "./elements.js";
import { cellName, framed, lit, marksOf, MEDIUM, pickable, SMALL } from "./image.js";
import { percent, total } from "./numbers.js";
import { labelMenu, labelOf, salient } from "./saliency.js";

export const patches = {
  name: "patches",
  title: "Patches",
  lead: "Where each patch looks: the clearer, the higher the weight. Click a patch to look from there.",
  depends: ["a", "kind", "layer", "head", "q", "symbol"],
  applies: ({ document, kinds }) => Boolean(document.image && kinds.includes("enc")),
  unavailable: ({ trace }) => (
    trace.kinds.includes("enc") ? null : trace.absent("enc", "the model has no self-attention")),
  controls,
  draw,
};

/** The chosen heads of the encoder: all, unless the choices are about it. */
function headsOf({ kind, layer, head }) {
  return kind === "enc" ? { kind, layer, head } : { kind: "enc", layer: -1, head: "all" };
}

/** The chosen place: a cell, or −1 for the class token, or for the mean of all cells without one. */
function cellOf(trace, { q }) {
  return Math.max(-1, q - marksOf(trace));
}

function controls(page) {
  const { trace, state, set } = page;
  const [cell, marks] = [cellOf(trace, state), marksOf(trace)];
  const whole = marks ? ["class token", "The vector that stands for the whole image"]
    : ["all patches", "The mean over all patches"];
  const options = [[-1, ...whole], ...(cell < 0 ? [] : [[cell, cellName(trace, cell)]])];
  return [
    choice("From", options, cell, (to) => set({ kind: "enc", q: to < 0 ? -1 : to + marks })),
    headMenus(trace, { ...state, ...headsOf(state) }, (changes) => set({ ...headsOf(state), ...changes })),
    labelMenu(page),
  ];
}

async function draw(page) {
  const { trace, state, set } = page;
  const [heads, cell, marks] = [headsOf(state), cellOf(trace, state), marksOf(trace)];
  const pick = (to) => set({ kind: "enc", q: to + marks });
  const shown = (weights, size) => {
    const picture = lit(trace, weights, size);
    return cell < 0 ? picture : framed(trace, picture, cell);
  };
  const weights = await cellsFrom(trace, heads, cell);
  const picture = pickable(trace, shown(weights, MEDIUM), cell, pick);
  const figure = (caption, drawn) => element("figure", {}, element("figcaption", {}, caption), drawn);
  const figures = [figure(headName(heads), picture)];
  const rolled = trace.kinds.includes("rollout")
    ? await cellsFrom(trace, { kind: "rollout", layer: -1, head: "all" }, cell) : null;
  if (rolled) figures.push(figure("Attention rollout", pickable(trace, shown(rolled, MEDIUM), cell, pick)));
  if (trace.document.saliency) {
    const label = labelOf(trace, state);
    const { picture: drawn } = await salient(trace, label, MEDIUM);
    figures.push(figure(["Saliency of ", bold(trace.symbol(label), "now")], drawn));
  }
  const parts = await Promise.all(partsOf(trace, heads).map(async (part) => element("button", {
    type: "button", class: part.head === heads.head && part.layer === heads.layer ? "region now" : "region",
    "data-key": `part ${part.layer} ${part.head}`, onclick: () => set({ kind: "enc", ...part }),
  }, shown(await cellsFrom(trace, { kind: "enc", ...part }, cell), SMALL),
  element("span", {}, partName(part)))));
  const node = element("div", {}, sentence(trace, weights, cell), element("div", { class: "three" }, figures),
    parts.length > 1 && element("div", { class: "strip" }, parts), notes(trace, rolled));
  const { columns } = trace.document.image;
  const rows = weights.map((weight, at) => [
    Math.floor(at / columns) + 1, (at % columns) + 1, weight, ...(rolled ? [rolled[at]] : [])]);
  const names = ["row", "column", "attention", ...(rolled ? ["rollout"] : [])];
  return { node, picture, table: { columns: names, rows } };
}

/**
 * The weights on the cells of the image from one cell, or from the class token, or the mean over all cells.
 * Weights that are stored in blocks are spread over the cells of a block.
 */
async function cellsFrom(trace, heads, cell) {
  const matrix = await chosenMatrix(trace, { ...heads, join: "mean", unit: "pieces", sink: true });
  const { values, columns, blocks: [down, across] } = matrix;
  const [marks, places] = [marksOf(trace), trace.axes.source.length];
  const from = (place) => Array.from({ length: places - marks }, (_, at) => (
    values[Math.floor(place / down) * columns + Math.floor((at + marks) / across)] / across));
  if (cell >= 0) return from(cell + marks);
  if (marks) return from(0);
  const rows = Array.from({ length: places }, (_, place) => from(place));
  return rows[0].map((_, at) => total(rows.map((row) => row[at])) / places);
}

/** The smaller pictures: one for each layer, or for each head of the chosen layer. */
function partsOf(trace, { kind, layer }) {
  if (layer < 0) return trace.layers(kind).map((one) => ({ layer: one.layer, head: "all" }));
  const { heads } = trace.attention(kind, layer);
  return Array.from({ length: heads }, (_, head) => ({ layer, head: String(head) }));
}

function partName({ layer, head }) {
  return head === "all" ? `layer ${layer}` : `head ${head}`;
}

function headName({ layer, head }) {
  const where = layer < 0 ? "all layers" : `layer ${layer}`;
  return `Attention, ${where}, ${head === "all" ? "all heads" : `head ${head}`}`;
}

function sentence(trace, weights, cell) {
  const [most, sum] = [Math.max(...weights), total(weights)];
  const whole = marksOf(trace) ? "the class token" : "all patches, on average";
  const rest = marksOf(trace) > 0 && ` ${percent(1 - sum)} is on the class token.`;
  return paragraph("facts", "From ", bold(cell < 0 ? whole : cellName(trace, cell), "now"), ": most weight, ",
    percent(most), `, on ${cellName(trace, weights.indexOf(most))}; `,
    `even weights would be ${percent(1 / weights.length)}.`, rest);
}

function notes(trace, rolled) {
  const stored = trace.document.absent.attention && trace.absent("attention", "");
  return paragraph("quiet facts",
    rolled && "Rollout multiplies the weights of all layers, each the mean of its heads and the residual "
      + "connection in equal parts (Abnar & Zuidema 2020, arXiv 2005.00928): how much of each patch reaches "
      + "the last vector of this one. It ignores values and feed-forward layers. ",
    stored);
}
