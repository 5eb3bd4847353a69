// The same weights as lines between two rows of words, or two columns where the rows do not fit.

import { canvas, svg, words } from "./elements.js";
import { shorten, textWidth } from "./text.js";

const FAINTEST = 0.04; // of the largest weight; lighter lines are not drawn
const MOST = 1500; // lines that one picture holds, the strongest ones
const [NARROW, WIDE] = [12, 44]; // pixels between words
const LABEL = 16; // characters of a word
const SIZE = 15 / 13; // of the letters, to that at which texts are measured

/**
 * The picture of a matrix: keys above (or right), queries below (or left), one line for each weight.
 *
 * row: that of the current step; pinned: {rows, columns}, sets whose lines alone are bright.
 * hover(row, column) hears of lines, pick("rows" or "columns", place, event) of clicks on words.
 */
export function lines(matrix, { width, row, high, pinned, hover, pick }) {
  const layout = layoutOf(matrix, width);
  const free = pinned.rows.size + pinned.columns.size === 0;
  const held = (one) => pinned.rows.has(one.row) || pinned.columns.has(one.column);
  const bright = (one) => (free ? row === null || one.row === row : held(one));
  const label = "Lines from each query to what it looks at";
  const picture = canvas(label, layout.width, layout.height, { class: "lines", "font-size": 15 });
  for (const one of strongest(matrix, FAINTEST * high)) {
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
    const picked = (event) => pick(side, place, event);
    return word(text, layout[side](place), place === now, pinned[side].has(place), picked);
  };
  picture.append(...matrix.columnLabels.map(token("columns", null)));
  picture.append(...matrix.rowLabels.map(token("rows", row)));
  return picture;
}

function word(text, { x, y, anchor }, now, held, pick) {
  return words(shorten(text, LABEL), x, y, {
    class: "token",
    tabindex: 0,
    role: "button",
    "aria-pressed": held,
    fill: now ? "var(--accent)" : "var(--ink)",
    "text-anchor": anchor,
    "text-decoration": held && "underline",
    "font-weight": now || held ? 650 : 400,
    onclick: pick,
    onkeydown: (event) => event.key === "Enter" && pick(event),
  });
}

/** The weights that are drawn, the strongest last and so on top. */
function strongest({ values, columns }, least) {
  const found = [];
  for (let index = 0; index < values.length; index++) {
    if (values[index] < least) continue;
    found.push({ row: Math.floor(index / columns), column: index % columns, weight: values[index] });
  }
  return found.sort((left, right) => right.weight - left.weight).slice(0, MOST).reverse();
}

function layoutOf(matrix, width) {
  const sizeOf = (label) => textWidth(shorten(label, LABEL)) * SIZE;
  const sizes = [matrix.columnLabels, matrix.rowLabels].map((labels) => labels.map(sizeOf));
  const sum = (list) => list.reduce((all, one) => all + one, 0);
  const gap = Math.min(WIDE, ...sizes.map((list) => (width - sum(list)) / list.length));
  return gap >= NARROW ? sideways(matrix, sizes, gap) : downwards(matrix, width);
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

function downwards(matrix, width) {
  const inner = Math.min(width, 760);
  const [left, right, height] = [inner * 0.3, inner * 0.7, 22 * Math.max(matrix.rows, matrix.columns)];
  const at = (x, anchor, count) => (place) => ({ x, y: ((place + 0.5) * height) / count, anchor });
  const [rows, columns] = [at(left - 10, "end", matrix.rows), at(right + 10, "start", matrix.columns)];
  const path = (row, column) => {
    const [from, to] = [rows(row).y, columns(column).y];
    return `M${left} ${from} C${left + 80} ${from} ${right - 80} ${to} ${right} ${to}`;
  };
  return { width: inner, height, rows, columns, path };
}
