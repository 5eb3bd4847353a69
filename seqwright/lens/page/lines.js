// Weights as lines between two rows of words, or between two columns if the rows do not fit.

import { canvas, pressed, svg, words } from "./elements.js";
import { shorten, textWidth } from "./text.js";

const FAINTEST = 0.04; // of the largest weight; weaker lines are not drawn
const MOST = 1500; // lines per picture, the strongest ones
const [NARROW, WIDE] = [12, 44]; // pixels between words
const LEAST = 120; // pixels between two columns of words
const LABEL = 16; // characters of a word
const SIZE = 15 / 13; // font size, relative to that of text measurement
const drawn = new WeakMap(); // the lines of each matrix

/**
 * The picture of a matrix: keys above (or right), queries below (or left), one line for each weight.
 *
 * row: that of the current step; pinned: {rows, columns}, sets whose lines are highlighted.
 * hover(row, column) is called for lines, pick("rows" or "columns", place, event) for clicks on words.
 */
export function lines(matrix, { width, row, high, pinned, hover, pick }) {
  const layout = layoutOf(matrix, width);
  const free = pinned.rows.size + pinned.columns.size === 0;
  const held = (one) => pinned.rows.has(one.row) || pinned.columns.has(one.column);
  const bright = (one) => (free ? row === null || one.row === row : held(one));
  const label = "Lines from each query to its keys";
  const picture = canvas(label, layout.width, layout.height, { class: "lines", "font-size": 15 });
  if (!drawn.has(matrix)) drawn.set(matrix, strongest(matrix, FAINTEST * high));
  for (const one of drawn.get(matrix)) {
    const [lit, strength] = [bright(one), one.weight / high];
    picture.append(svg("path", {
      d: layout.path(one.row, one.column),
      fill: "none",
      stroke: lit ? "var(--data)" : "var(--quiet)",
      "stroke-linecap": "round",
      "stroke-width": (0.6 + 5 * strength).toFixed(2),
      "stroke-opacity": (lit ? 0.2 + 0.8 * strength : 0.3 * strength).toFixed(3),
      onpointerenter: () => hover(one.row, one.column),
    }));
  }
  const token = (side, now) => (text, place) => {
    const held = pinned[side].has(place);
    return word(text, layout[side](place), place === now, held, {
      ...pressed((event) => pick(side, place, event)), "data-key": `${side} ${place}`,
    });
  };
  picture.append(...matrix.columnLabels.map(token("columns", null)));
  picture.append(...matrix.rowLabels.map(token("rows", row)));
  return picture;
}

function word(text, { x, y, anchor }, now, held, attributes) {
  return words(shorten(text, LABEL), x, y, {
    class: "token",
    ...attributes,
    "aria-pressed": held,
    fill: now ? "var(--accent)" : "var(--ink)",
    "text-anchor": anchor,
    "text-decoration": held && "underline",
    "font-weight": now || held ? 650 : 400,
  });
}

/** The weights to draw, the strongest last and so on top; of equal ones at the limit, the first. */
function strongest({ values, columns }, least) {
  const weights = values.filter((value) => value >= least).sort().subarray(-MOST);
  const found = [];
  let ties = weights.lastIndexOf(weights[0]) + 1;
  for (let index = 0; index < values.length; index++) {
    const weight = values[index];
    if (!(weight > weights[0]) && !(weight === weights[0] && ties-- > 0)) continue;
    found.push({ row: Math.floor(index / columns), column: index % columns, weight });
  }
  return found.sort((left, right) => left.weight - right.weight);
}

function layoutOf(matrix, width) {
  const sizeOf = (label) => textWidth(shorten(label, LABEL)) * SIZE;
  const sizes = [matrix.columnLabels, matrix.rowLabels].map((labels) => labels.map(sizeOf));
  const sum = (list) => list.reduce((all, one) => all + one, 0);
  const gap = Math.min(WIDE, ...sizes.map((list) => (width - sum(list)) / list.length));
  return gap >= NARROW ? sideways(matrix, sizes, gap) : downwards(matrix, sizes, width);
}

function sideways(matrix, sizes, gap) {
  const rows = sizes.map((list, side) => {
    let end = 0;
    const middles = list.map((size) => (end += size + gap) - (size + gap) / 2);
    const leftward = [matrix.leftward, matrix.rowsLeftward][side];
    return { middles: leftward ? middles.map((middle) => end - middle) : middles, width: end };
  });
  const width = Math.ceil(Math.max(...rows.map((row) => row.width)));
  const [top, bottom] = [18, 270];
  const left = (row) => (width - row.width) / 2;
  const at = (row, y) => (place) => ({ x: left(row) + row.middles[place], y, anchor: "middle" });
  const [columns, queries] = [at(rows[0], top), at(rows[1], bottom)];
  const path = (row, column) => {
    const [from, to] = [queries(row).x, columns(column).x];
    return `M${from} ${bottom - 14} C${from} ${bottom - 100} ${to} ${top + 100} ${to} ${top + 14}`;
  };
  return { width, height: bottom + 18, columns, rows: queries, path };
}

function downwards(matrix, sizes, width) {
  const [keys, queries] = sizes.map((list) => Math.max(...list) + 10); // and the gap to the lines
  const inner = Math.max(Math.min(width, 760), queries + keys + LEAST);
  const [left, right] = [Math.max(inner * 0.3, queries), Math.min(inner * 0.7, inner - keys)];
  const height = 22 * Math.max(matrix.rows, matrix.columns);
  const at = (x, anchor, count) => (place) => ({ x, y: ((place + 0.5) * height) / count, anchor });
  const [rows, columns] = [at(left - 10, "end", matrix.rows), at(right + 10, "start", matrix.columns)];
  const path = (row, column) => {
    const [from, to] = [rows(row).y, columns(column).y];
    return `M${left} ${from} C${left + 80} ${from} ${right - 80} ${to} ${right} ${to}`;
  };
  return { width: inner, height, rows, columns, path };
}
