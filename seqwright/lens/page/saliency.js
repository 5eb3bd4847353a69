// Which pixels move the score of a label: the gradient of the score (Simonyan et al. 2014), over the image.

import { verdict } from "./decision.js";
import { bold, canvas, element, menu, paragraph } from "./elements.js";
import { bare, litPixels, MEDIUM, raster, SMALL } from "./image.js";
import { percent, probability } from "./numbers.js";

const CLIPPED = 0.99; // share of the pixels below the end of the scale: a few would hide all others

export const saliency = {
  name: "saliency",
  title: "Saliency",
  lead: ({ names }) => (
    `Which pixels move the score of a ${names.symbol}: the clearer, the larger the gradient.`),
  depends: ["a", "symbol"],
  applies: (trace) => Boolean(trace.document.image && !trace.document.model.decoder),
  unavailable: ({ trace }) => (
    trace.document.saliency ? null : trace.absent("saliency", "the saliency was not computed")),
  controls: labelMenu,
  draw,
};

/** A menu of the labels that have a saliency of their own, if there are several. */
export function labelMenu({ trace, state, set }) {
  const labels = trace.document.saliency?.labels ?? [];
  const name = trace.names.symbol.charAt(0).toUpperCase() + trace.names.symbol.slice(1);
  return labels.length > 1 && menu(name, labels.map((id) => [id, trace.symbol(id)]), labelOf(trace, state),
    (symbol) => set({ symbol }));
}

/** The chosen label, or the predicted one. */
export function labelOf(trace, { symbol }) {
  const { labels } = trace.document.saliency;
  return labels.includes(symbol) ? symbol : labels[0];
}

/** The saliency of a label over the image: {picture, map}; `map.high` is the end of the scale. */
export async function salient(trace, id, size) {
  const map = await trace.once(`saliency ${id}`, () => mapOf(trace, id));
  return { map, picture: litPixels(trace, map, size, `Saliency of ${trace.symbol(id)}`) };
}

/** The saliency of a label: {values, rows, columns, high}. */
async function mapOf(trace, id) {
  const { labels, levels, scales, weights } = trace.document.saliency;
  const { values, shape: [, rows, columns] } = await trace.array(weights);
  const [place, size] = [labels.indexOf(id), rows * columns];
  const part = values.subarray(place * size, (place + 1) * size);
  const slopes = Float32Array.from(part, (number) => (number * scales[place]) / levels);
  const sorted = Float32Array.from(slopes).sort();
  const high = sorted[Math.floor(CLIPPED * (size - 1))] || sorted.at(-1) || 1;
  return { values: slopes, rows, columns, high };
}

async function draw({ trace, state, set, colours }) {
  const chosen = labelOf(trace, state);
  const { labels } = trace.document.saliency;
  const small = await Promise.all(labels.map((id) => salient(trace, id, SMALL)));
  const { picture, map } = await salient(trace, chosen, MEDIUM);
  const chances = new Map(trace.document.steps[0].top);
  const strip = labels.map((id, place) => element("button", {
    type: "button", class: id === chosen ? "region now" : "region", "data-key": `label ${id}`,
    "aria-pressed": id === chosen, onclick: () => set({ symbol: id }),
  }, small[place].picture, element("span", { dir: "auto" }, trace.symbol(id)),
  element("span", { class: "quiet" }, chances.has(id) && percent(probability(chances.get(id))))));
  const figure = (caption, drawn) => element("figure", {}, element("figcaption", {}, caption), drawn);
  const figures = element("div", { class: "three" }, figure("Image", bare(trace, "Image", MEDIUM)),
    figure(["Saliency of ", bold(trace.symbol(chosen), "now")], picture),
    figure("Saliency alone", alone(map, colours)));
  const node = element("div", {}, verdict(trace, 0), figures,
    strip.length > 1 && element("div", { class: "strip" }, strip),
    paragraph("quiet facts", "The gradient of the score by each pixel, the largest of its channels ",
      "(Simonyan et al. 2014, arXiv 1312.6034). It shows how a small change of a pixel acts, not how much ",
      "of the score the pixel carries, and it is noisy. The strongest 1\u00a0% of the pixels are drawn ",
      "alike."));
  const rows = Array.from(map.values, (value, place) => (
    [Math.floor(place / map.columns) + 1, (place % map.columns) + 1, value]));
  return { node, picture, table: { columns: ["row", "column", "gradient"], rows } };
}

/** The saliency without the image. */
function alone({ values, rows, columns, high }, { ramp }) {
  const colours = Array.from(values, (value) => [...ramp[Math.round(255 * Math.min(1, value / high))], 255]);
  const picture = canvas("Saliency alone", MEDIUM, MEDIUM, { class: "image" });
  picture.append(raster(columns, rows, colours, MEDIUM, MEDIUM));
  return picture;
}
