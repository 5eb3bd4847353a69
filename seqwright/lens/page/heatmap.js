// A matrix as a picture: one small image for the colours, with labels and lines.

import { css, inkOn } from "./colours.js";
import { canvas, svg, words } from "./elements.js";
import { short } from "./numbers.js";
import { shorten, textWidth } from "./text.js";

const READABLE = 11; // pixels of a cell from which its label is readable
const [WIDEST, TALLEST] = [62, 30]; // pixels of a cell
const LABEL = 16; // characters of a label
const TILT = 52; // degrees of labels that do not fit horizontally
const [COSINE, SINE] = [Math.cos, Math.sin].map((part) => part((TILT * Math.PI) / 180));
const LEAST = 120; // pixels of all columns at least
const FINEST = 600; // rows or columns of an image at most; more are pooled
const images = new WeakMap();

/** The URL of an image of a matrix, cached by matrix and theme. */
export function imageOf(matrix, colours, name, low, high, finest = FINEST) {
  if (!images.has(matrix)) images.set(matrix, new Map());
  const known = images.get(matrix);
  const key = [colours.theme, name, low, high, finest].join();
  if (!known.has(key)) known.set(key, paint(matrix, colours[name], low, high, finest));
  return known.get(key);
}

function paint({ values, rows, columns, leftward }, colours, low, high, finest) {
  const [height, width] = [Math.min(rows, finest), Math.min(columns, finest)];
  const sheet = document.createElement("canvas");
  [sheet.width, sheet.height] = [width, height];
  const brush = sheet.getContext("2d");
  const image = brush.createImageData(width, height);
  const cells = rows > height || columns > width ? pool(values, rows, columns, height, width) : values;
  for (let index = 0; index < height * width; index++) {
    const column = index % width;
    const place = leftward ? index + width - 1 - 2 * column : index;
    image.data.set(colourOf(cells[index], colours, low, high), 4 * place);
    image.data[4 * place + 3] = 255;
  }
  brush.putImageData(image, 0, 0);
  return sheet.toDataURL();
}

function colourOf(value, colours, low, high) {
  return colours[Math.max(0, Math.min(255, Math.round((255 * (value - low)) / (high - low || 1))))];
}

/** Max-pooling by magnitude, so that a peak stays visible at any size. */
function pool(values, rows, columns, height, width) {
  const pooled = new Float32Array(height * width);
  const across = Uint32Array.from({ length: columns }, (_, column) => Math.floor((column * width) / columns));
  for (let row = 0; row < rows; row++) {
    const start = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column++) {
      const value = values[row * columns + column];
      const place = start + across[column];
      if (Math.abs(value) > Math.abs(pooled[place])) pooled[place] = value;
    }
  }
  return pooled;
}

/**
 * The picture of a matrix {values, rows, columns, rowLabels, columnLabels, leftward}.
 *
 * scale: {colours, name, low, high}; row: that of the current step; cell: the chosen [row, column]; lit:
 * which {rows, columns} are not dimmed; image: the matrix whose image is used instead of this one.
 * hover(row, column) and pick(row, column) are called for mouse and keyboard.
 */
export function heatmap(matrix, scale, options) {
  const frame = measure(matrix, options);
  const { left, top, across, down } = frame;
  const [width, height] = [across * matrix.columns, down * matrix.rows];
  const image = imageOf(options.image ?? matrix, scale.colours, scale.name, scale.low, scale.high);
  const keys = options.pick ? "arrow keys move, Enter selects" : "arrow keys move";
  const label = `${options.label}: ${matrix.rows} rows, ${matrix.columns} columns; ${keys}`;
  const picture = canvas(label, left + width + frame.right, top + height + 4, {
    class: "heatmap", tabindex: 0, role: "application", "data-key": options.label,
  });
  const box = { x: left, y: top, width, height };
  picture.append(
    svg("image", { href: image, ...box, preserveAspectRatio: "none", style: "image-rendering:pixelated" }),
    svg("rect", { ...box, fill: "none", stroke: "var(--line)" }),
  );
  if (across >= 34 && down >= 20) picture.append(...digits(matrix, frame, scale));
  if (options.lit) picture.append(...veils(matrix, frame, options.lit));
  picture.append(...rowLabels(matrix, frame, options.row), ...columnLabels(matrix, frame));
  if (options.row !== null) {
    const y = top + options.row * down - 0.5;
    picture.append(outline({ x: left - 1, y, width: width + 2, height: down + 1 }));
  }
  listen(picture, matrix, frame, options);
  return picture;
}

function outline(box) {
  return svg("rect", { ...box, rx: 2, fill: "none", stroke: "var(--accent)", "stroke-width": 1.5 });
}

/** The position and the size of the cells. */
function measure(matrix, { width, maxHeight = 620 }) {
  const [left, longest] = [14 + widest(matrix.rowLabels), widest(matrix.columnLabels)];
  const cell = (right) => Math.min(WIDEST, Math.max(LEAST, width - left - right) / matrix.columns);
  const flat = cell(4) < READABLE || cell(4) > longest + 6;
  const right = flat ? 4 : longest * COSINE;
  const top = cell(right) < READABLE ? 8 : flat ? 26 : 18 + longest * SINE;
  const [across, down] = [cell(right), Math.min(TALLEST, maxHeight / matrix.rows)];
  const last = matrix.columns - 1;
  const x = (column) => left + (matrix.leftward ? last - column : column) * across;
  return { left, right, top, across, down, flat, x };
}

function widest(labels) {
  return Math.max(...labels.map((label) => textWidth(shorten(label, LABEL))));
}

/** As many labels as are readable, always including that of the current row. */
function rowLabels(matrix, { left, top, down }, row) {
  const every = Math.ceil(READABLE / down);
  const free = (place) => every === 1 || row === null || Math.abs(place - row) >= every;
  const seen = (place) => place === row || (place % every === 0 && free(place));
  return [...matrix.rowLabels.keys()].filter(seen).map((place) => words(
    shorten(matrix.rowLabels[place], LABEL), left - 8, top + (place + 0.5) * down,
    { "text-anchor": "end", ...(place === row ? { fill: "var(--accent)", "font-weight": 650 } : {}) },
  ));
}

function columnLabels(matrix, { x: start, top, across, flat }) {
  if (across < READABLE) return [];
  return matrix.columnLabels.map((text, place) => {
    const [x, y] = [start(place) + across / 2, top - (flat ? 13 : 8)];
    const turned = flat ? { "text-anchor": "middle" } : { transform: `rotate(-${TILT} ${x} ${y})` };
    return words(shorten(text, LABEL), x, y, turned);
  });
}

function digits({ values, columns }, { x: start, top, across, down }, { colours, name, low, high }) {
  return [...values.keys()].filter((index) => Math.abs(values[index]) >= 0.005).map((index) => {
    const ink = inkOn(colourOf(values[index], colours[name], low, high));
    const text = values[index].toFixed(2).replace(/^(-?)0\./, "$1.").replace("-", "−");
    const [row, column] = [Math.floor(index / columns), index % columns];
    const [x, y] = [start(column) + across / 2, top + (row + 0.5) * down];
    return words(text, x, y, { "text-anchor": "middle", "font-size": 11, fill: ink });
  });
}

function veils({ rows, columns }, { left, top, across, down, x }, lit) {
  const veil = (box) => svg("rect", { ...box, fill: "var(--panel)", "fill-opacity": 0.75 });
  const dark = (count, seen) => [...Array(count).keys()].filter((place) => !seen(place));
  const row = (place) => veil({ x: left, y: top + place * down, width: across * columns, height: down });
  const column = (place) => veil({ x: x(place), y: top, width: across, height: down * rows });
  return [...dark(rows, lit.rows).map(row), ...dark(columns, lit.columns).map(column)];
}

/** A cursor over the cells, moved by the mouse or the arrow keys. */
function listen(picture, { rows, columns, leftward }, { left, top, across, down, x }, { hover, pick, cell }) {
  let at = cell ?? [0, 0];
  const cursor = outline({ width: Math.max(3, across), height: Math.max(3, down), visibility: "hidden" });
  const show = (row, column) => {
    at = [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))];
    cursor.setAttribute("x", x(at[1]));
    cursor.setAttribute("y", top + at[0] * down);
    cursor.setAttribute("visibility", "visible");
    hover?.(...at);
  };
  const under = (event) => {
    const box = picture.getBoundingClientRect();
    const scale = box.width / picture.getAttribute("width");
    const row = Math.floor(((event.clientY - box.top) / scale - top) / down);
    const seen = Math.floor(((event.clientX - box.left) / scale - left) / across);
    const column = leftward ? columns - 1 - seen : seen;
    return row >= 0 && column >= 0 && row < rows && column < columns ? [row, column] : null;
  };
  picture.append(cursor);
  picture.addEventListener("pointermove", (event) => under(event) && show(...under(event)));
  picture.addEventListener("click", (event) => under(event) && pick?.(...under(event)));
  picture.addEventListener("focus", () => show(...at));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) show(at[0] + step[0], at[1] + (leftward ? -step[1] : step[1]));
    else if (event.key === "Enter") pick?.(...at);
    else return;
    event.preventDefault();
  });
  if (cell) show(...cell);
}

/** The colour scale with its two ends. */
export function legend({ colours, name, low, high }) {
  const stops = [0, 51, 102, 153, 204, 255];
  const id = `legend-${name}`;
  const picture = canvas("Colour scale", 190, 18, { class: "legend", "font-size": 12 });
  picture.append(
    svg("linearGradient", { id }, stops.map((place) => (
      svg("stop", { offset: place / 255, "stop-color": css(colours[name][place]) })))),
    words(short(low, 2).replace(/\.00$/, ""), 34, 9, { "text-anchor": "end", fill: "var(--quiet)" }),
    svg("rect", { x: 40, y: 4, width: 100, height: 10, rx: 2, fill: `url(#${id})`, stroke: "var(--line)" }),
    words(short(high, 2), 146, 9, { fill: "var(--quiet)" }),
  );
  return picture;
}
