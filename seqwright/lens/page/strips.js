// Vectors as strips of numbers, one below the other, with the formula on the left.

import { css, inkOn } from "./colours.js";
import { canvas, svg, words } from "./elements.js";
import { short } from "./numbers.js";

const [LEFT, RIGHT, ROW, BOX] = [190, 100, 30, 25]; // pixels: formulas, right margin, a line, a number
const [DIGITS, MORE] = [27, 36]; // pixels of a box with one decimal, and with two
const [FEWEST, WIDEST] = [12, 52]; // numbers drawn at least; pixels of a box at most
const LEAST = 620; // pixels of the picture, so that sums fit

/**
 * A picture of lines: {title}, {label, values} for a vector, {label, text} for a sum. `strong` lines are
 * highlighted. Of a long vector, only as many numbers are drawn as are readable; `size` is its full length if
 * `values` is its beginning.
 */
export function strips(lines, width, colours) {
  const room = width - LEFT - RIGHT;
  const most = Math.max(FEWEST, Math.floor(room / (DIGITS + 1)));
  const boxes = (line) => Math.min(most, line.values?.length ?? 0);
  const across = sections(lines).flatMap((section) => {
    const size = Math.max(1, ...section.map(boxes));
    return section.map(() => Math.min(WIDEST, Math.max(DIGITS + 1, room / size)));
  });
  const ends = lines.map((line, place) => LEFT + boxes(line) * across[place] + RIGHT);
  const wide = Math.max(LEAST, ...ends);
  const picture = canvas("Computation, step by step", wide, lines.length * ROW + 6, { class: "strips" });
  lines.forEach((line, place) => (
    picture.append(...drawn(line, place * ROW + 2, across[place], boxes(line), colours))));
  return picture;
}

/** Lines from one title to the next; their boxes have the same width. */
function sections(lines) {
  const found = [];
  for (const line of lines) {
    if (line.title || !found.length) found.push([]);
    found.at(-1).push(line);
  }
  return found;
}

function drawn({ title, label, values, size, text, strong }, y, across, count, colours) {
  const middle = y + BOX / 2;
  if (title) return [words(title, 0, middle + 3, { "font-weight": 650, "font-size": 14 })];
  const weight = strong ? { fill: "var(--accent)", "font-weight": 650 } : {};
  const name = words(label, LEFT - 12, middle, { "text-anchor": "end", fill: "var(--quiet)", ...weight });
  if (text) return [name, words(text, LEFT, middle, weight)];
  const reach = values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
  const boxes = Array.from(values.slice(0, count), (value, place) => {
    const colour = colours[Math.round(127.5 + (127.5 * value) / reach)];
    return box(value, colour, LEFT + place * across, y, across - 1);
  });
  const left = (size ?? values.length) - count;
  if (left <= 0) return [name, ...boxes.flat()];
  const more = words(`… ${left} more`, LEFT + count * across + 6, middle, { fill: "var(--quiet)" });
  return [name, ...boxes.flat(), more];
}

function box(value, colour, x, y, width) {
  const title = svg("title", {}, short(value, 5));
  const filled = svg("rect", { x, y, width, height: BOX, rx: 2, fill: css(colour) }, title);
  const ink = { "text-anchor": "middle", "font-size": 11, fill: inkOn(colour), "pointer-events": "none" };
  return [filled, words(short(value, width < MORE ? 1 : 2), x + width / 2, y + BOX / 2, ink)];
}
