// How alike the learned positions of the patches are: a tile for each patch, its cosines with all others
// (Dosovitskiy et al. 2021, figure 7).

import { canvas, element, paragraph, words } from "./elements.js";
import { legend } from "./heatmap.js";
import { cellName, framed, marksOf, MEDIUM, pickable, raster } from "./image.js";
import { short } from "./numbers.js";

const [EDGE, GAP, WALL] = [22, 6, 440]; // pixels: numbers of rows and columns, between tiles, all tiles

export const positions = {
  name: "positions",
  title: "Positions",
  lead: "How alike the learned positions of the patches are: the cosine of each with all others.",
  depends: ["a"],
  applies: ({ document, kinds }) => Boolean(document.image && kinds.includes("enc")),
  unavailable: ({ trace }) => (
    trace.document.positions ? null : trace.absent("positions", "the positions were not compared")),
  draw,
};

async function draw({ trace, state, set, colours }) {
  const { rows, columns } = trace.document.image;
  const { values } = await trace.array(trace.document.positions.similarity);
  const cells = rows * columns;
  const middle = Math.floor(rows / 2) * columns + Math.floor(columns / 2);
  const marks = marksOf(trace);
  const cell = state.q - marks >= 0 ? state.q - marks : middle;
  const reach = reachOf(values, cells);
  const scale = { colours, name: "difference", low: -reach, high: reach };
  const colour = (value) => {
    const place = Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, value / reach)));
    return [...colours.difference[place], 255];
  };
  const pick = (to) => set({ kind: "enc", q: to + marks });
  const own = values.subarray(cell * cells, (cell + 1) * cells);
  const one = canvas(`Similarity to ${cellName(trace, cell)}`, MEDIUM, MEDIUM, { class: "image" });
  one.append(raster(columns, rows, Array.from(own, colour), MEDIUM, MEDIUM));
  pickable(trace, framed(trace, one, cell), cell, pick);
  const wall = tiles(trace, { values, cell, colour, pick });
  const figure = (caption, drawn) => element("figure", {}, element("figcaption", {}, caption), drawn);
  const node = element("div", {}, sentence(trace, values, cell), element("div", { class: "three" },
    figure("Every patch", wall),
    element("div", {}, figure(`From ${cellName(trace, cell)}`, one), legend(scale))),
  paragraph("quiet facts", "Each tile is the image as seen from one patch. Where a tile is strongest around ",
    "its own place, or along its row and column, the model has learned where the patches are. The scale ",
    "ends at the strongest similarity of two different patches."));
  const table = Array.from(own, (value, at) => [Math.floor(at / columns) + 1, (at % columns) + 1, value]);
  return { node, picture: wall, table: { columns: ["row", "column", "cosine"], rows: table } };
}

/** The strongest similarity of two different positions. */
function reachOf(values, cells) {
  let most = 0;
  values.forEach((value, place) => {
    if (Math.floor(place / cells) !== place % cells) most = Math.max(most, Math.abs(value));
  });
  return most || 1;
}

/** The tiles of all patches, in the places of the patches. */
function tiles(trace, { values, cell, colour, pick }) {
  const { rows, columns } = trace.document.image;
  const cells = rows * columns;
  const grain = Math.max(2, Math.round(WALL / Math.max(rows * rows, columns * columns)));
  const [wide, high] = [columns * grain, rows * grain];
  const [across, down] = [wide + GAP, high + GAP]; // from one tile to the next
  const [width, height] = [columns * across, rows * down];
  const inside = canvas("Tiles", width, height, { x: EDGE, y: 0 });
  const quiet = { fill: "var(--quiet)", "font-size": 11, "text-anchor": "middle" };
  const numbers = [];
  for (let place = 0; place < cells; place++) {
    const [x, y] = [(place % columns) * across, Math.floor(place / columns) * down];
    const own = values.subarray(place * cells, (place + 1) * cells);
    const tile = raster(columns, rows, Array.from(own, colour), wide, high);
    tile.setAttribute("x", x + GAP / 2);
    tile.setAttribute("y", y + GAP / 2);
    inside.append(tile);
    if (x === 0) numbers.push(words(String(y / down + 1), EDGE / 2, y + down / 2, quiet));
    if (y === 0) {
      numbers.push(words(String(x / across + 1), EDGE + x + across / 2, height + EDGE / 2, quiet));
    }
  }
  pickable(trace, framed(trace, inside, cell), cell, pick);
  const picture = canvas("Similarity of all positions", width + EDGE, height + EDGE);
  picture.append(inside, ...numbers);
  return picture;
}

function sentence(trace, values, cell) {
  const { rows, columns } = trace.document.image;
  const cells = rows * columns;
  const own = [...values.subarray(cell * cells, (cell + 1) * cells)];
  const [row, column] = [Math.floor(cell / columns), cell % columns];
  const near = own.filter((_, at) => (
    Math.abs(Math.floor(at / columns) - row) + Math.abs((at % columns) - column) === 1));
  const others = own.filter((_, at) => at !== cell);
  const mean = (some) => some.reduce((sum, value) => sum + value, 0) / Math.max(1, some.length);
  return paragraph("facts", element("b", { class: "now" }, cellName(trace, cell)), ": mean cosine ",
    `${short(mean(near), 2)} with its neighbours, ${short(mean(others), 2)} with all other patches.`);
}
