// The image, lit where the model looks at the current step, and once for every step (Xu et al. 2015,
// figure 2).

import { headMenus } from "./alignment.js";
import { chosenMatrix, noAttention, stepHeads } from "./attention.js";
import { bold, canvas, element, paragraph, svg } from "./elements.js";
import { percent, short } from "./numbers.js";

const [LARGE, SMALL] = [384, 96]; // pixels of a picture
const DARK = 0.8; // opacity over a cell without weight

export const regions = {
  name: "regions",
  title: "Regions",
  lead: "Where the model looks in the image when it writes each token: the brighter, the more.",
  depends: ["a", "layer", "head"],
  applies: (trace) => Boolean(trace.document.image),
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

/** The image under a veil that is thin where the weights are high. */
function lit(trace, weights, size) {
  const { uri, rows, columns } = trace.document.image;
  const [width, height, most] = [size / columns, size / rows, Math.max(...weights) || 1];
  const picture = canvas("Image with the weights of its cells", size, size);
  const stretched = { width: size, height: size, preserveAspectRatio: "none" };
  if (uri.startsWith("data:image/")) picture.append(svg("image", { href: uri, ...stretched }));
  weights.forEach((weight, place) => {
    const [row, column] = [Math.floor(place / columns), place % columns];
    picture.append(svg("rect", {
      x: column * width, y: row * height, width, height, "fill-opacity": DARK * (1 - weight / most),
    }, svg("title", {}, `row ${row + 1}, column ${column + 1}: ${short(weight, 3)}`)));
  });
  return picture;
}

function sentence(trace, weights, t) {
  const { columns } = trace.document.image;
  const most = Math.max(...weights);
  const place = weights.indexOf(most);
  return paragraph("facts", bold(trace.axes.steps[t].label, "now"), ": most weight, ", percent(most),
    `, on row ${Math.floor(place / columns) + 1}, column ${(place % columns) + 1}; `,
    `even weights would be ${percent(1 / weights.length)}.`);
}
