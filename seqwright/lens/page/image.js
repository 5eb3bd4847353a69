// The image that a model reads, under a veil: of its cells, or of its pixels.

import { canvas, svg } from "./elements.js";
import { short } from "./numbers.js";

export const LARGE = 384; // pixels of a picture that has the page for itself
export const MEDIUM = 304; // of one of three
export const SMALL = 96; // of one of many
const OPAQUE = 0.8; // opacity of the veil where there is no weight
const DARK = 0.3; // brightness below which a black veil could not be seen
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** The image under a veil that is thin where the weights of its cells are high. */
export function lit(trace, weights, size) {
  const { rows, columns } = trace.document.image;
  const [width, height, most] = [size / columns, size / rows, Math.max(...weights) || 1];
  const [picture, veil] = [bare(trace, "Image with the weights of its cells", size), veilOf(trace)];
  weights.forEach((weight, cell) => {
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    picture.append(svg("rect", {
      x: column * width, y: row * height, width, height, "fill-opacity": OPAQUE * (1 - weight / most),
      fill: veil === 0 ? "#000000" : "#ffffff",
    }, svg("title", {}, `row ${row + 1}, column ${column + 1}: ${short(weight, 3)}`)));
  });
  return picture;
}

/** The image under a veil that is thin where the values of its pixels are high, and gone from `high` on. */
export function litPixels(trace, { values, rows, columns, high }, size, label) {
  const [picture, veil] = [bare(trace, label, size), veilOf(trace)];
  const colours = Array.from(values, (value) => (
    [veil, veil, veil, 255 * OPAQUE * (1 - Math.min(1, value / high))]));
  picture.append(raster(columns, rows, colours, size, size));
  return picture;
}

/** The level of the veil: black, or white over a dark image. */
function veilOf({ document: { image } }) {
  return image.brightness < DARK ? 255 : 0;
}

/** The image alone. */
export function bare(trace, label, size) {
  const picture = canvas(label, size, size, { class: "image" });
  const { uri } = trace.document.image;
  if (uri.startsWith("data:image/")) picture.append(stretched(uri, size, size));
  return picture;
}

/** Colours [r, g, b, a] of columns × rows pixels as one embedded image. */
export function raster(columns, rows, colours, width, height) {
  const sheet = document.createElement("canvas");
  [sheet.width, sheet.height] = [columns, rows];
  const pen = sheet.getContext("2d");
  const pixels = new ImageData(columns, rows);
  colours.forEach((colour, place) => pixels.data.set(colour, 4 * place));
  pen.putImageData(pixels, 0, 0);
  return stretched(sheet.toDataURL("image/png"), width, height);
}

/** An embedded image whose pixels stay squares. */
function stretched(href, width, height) {
  const style = "image-rendering:pixelated";
  return svg("image", { href, width, height, preserveAspectRatio: "none", style });
}

/** Marks a cell with a frame. */
export function framed(trace, picture, cell) {
  const { rows, columns } = trace.document.image;
  const [across, down] = ["width", "height"].map((side) => Number(picture.getAttribute(side)));
  const [width, height] = [across / columns, down / rows];
  const at = { x: (cell % columns) * width, y: Math.floor(cell / columns) * height, width, height };
  const line = { fill: "none", "pointer-events": "none", class: "frame" };
  picture.append(svg("rect", { ...at, ...line, stroke: "#ffffff", "stroke-width": 4 }),
    svg("rect", { ...at, ...line, stroke: "var(--accent)", "stroke-width": 2 }));
  return picture;
}

/** Lets the user pick a cell of a picture with the mouse or with the arrow keys. */
export function pickable(trace, picture, cell, pick) {
  const { rows, columns } = trace.document.image;
  for (const [name, value] of Object.entries({ tabindex: 0, "data-key": "cell", role: "application" })) {
    picture.setAttribute(name, value);
  }
  picture.classList.add("pickable");
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    const place = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    const row = place((event.clientY - box.top) / box.height, rows);
    pick(row * columns + place((event.clientX - box.left) / box.width, columns));
  });
  picture.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const start = cell < 0 ? Math.floor(rows / 2) * columns + Math.floor(columns / 2) : cell;
    const row = Math.max(0, Math.min(rows - 1, Math.floor(start / columns) + step[0]));
    pick(row * columns + Math.max(0, Math.min(columns - 1, (start % columns) + step[1])));
  });
  return picture;
}

/** "row 2, column 3". */
export function cellName(trace, cell) {
  const { columns } = trace.document.image;
  return `row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
}

/** The number of vectors before those of the cells, which stand for the whole image. */
export function marksOf(trace) {
  const { rows, columns } = trace.document.image;
  return trace.axes.source.length - rows * columns;
}
