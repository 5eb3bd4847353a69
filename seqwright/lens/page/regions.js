// The image, lit where the model looks at the current step, and once for every step (Xu et al. 2015,
// figure 2).

import { headMenus } from "./alignment.js";
import { chosenMatrix, noAttention, stepHeads } from "./attention.js";
import { bold, element, paragraph } from "./elements.js";
import { cellName, LARGE, lit, SMALL } from "./image.js";
import { percent } from "./numbers.js";

export const regions = {
  name: "regions",
  title: "Regions",
  lead: ({ names }) => (
    `Where the model looks in the image for each ${names.symbol}: the clearer, the higher the weight.`),
  depends: ["a", "layer", "head"],
  applies: (trace) => Boolean(trace.document.image && (trace.document.model.decoder || stepHeads(trace, {}))),
  unavailable: ({ trace }) => !stepHeads(trace, {}) && noAttention(trace),
  controls: ({ trace, state, set }) => headMenus(trace, { ...state, ...stepHeads(trace, state) }, set),
  draw,
};

async function draw({ trace, state, set }) {
  const heads = stepHeads(trace, state);
  const chosen = { ...heads, join: "mean", unit: "pieces", sink: true };
  const { values, columns } = await chosenMatrix(trace, chosen);
  const { rows: down, columns: across } = trace.document.image;
  const first = columns - down * across; // places before the cells stand for the whole image
  const cellsOf = (t) => [...values.subarray(t * columns + first, (t + 1) * columns)];
  const picture = lit(trace, cellsOf(state.t), LARGE);
  const strip = trace.axes.steps.map(({ label }, t) => element("button", {
    type: "button", class: t === state.t ? "region now" : "region", "data-key": `region ${t}`,
    "aria-pressed": t === state.t, onclick: () => set({ t, playing: "" }),
  }, lit(trace, cellsOf(t), SMALL), element("span", { dir: "auto" }, label)));
  const now = element("div", {}, sentence(trace, cellsOf(state.t), state.t), picture);
  const node = element("div", { class: "regions" }, now, element("div", { class: "strip" }, strip));
  const rows = cellsOf(state.t).map((weight, place) => (
    [Math.floor(place / across) + 1, (place % across) + 1, weight]));
  return { node, picture, table: { columns: ["row", "column", "weight"], rows } };
}

function sentence(trace, weights, t) {
  const most = Math.max(...weights);
  return paragraph("facts", bold(trace.axes.steps[t].label, "now"), ": most weight, ", percent(most),
    `, on ${cellName(trace, weights.indexOf(most))}; `,
    `even weights would be ${percent(1 / weights.length)}.`);
}
