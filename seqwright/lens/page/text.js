// Measure, shorten and display text.

import { withoutOrders } from "./elements.js";
import { clusters, joiner, joins, rightToLeft, standing } from "./scripts.js";

const SIGNS = { " ": "␣", "\n": "↵", "\t": "⇥", "\ufdd0": "│", "\ufdd1": "" };
const MARKS = { end: "⟨end⟩", next: "⟨next⟩" }; // labels of tokens without a text
const NEAR = 12; // characters around a token that determine the forms of its letters
const measure = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** The width of a text in a picture, in pixels at 13 px, in bold. */
export function textWidth(text) {
  if (!widths.has(text)) {
    measure.font = `650 13px ${getComputedStyle(document.body).fontFamily}`;
    widths.set(text, measure.measureText(text).width);
  }
  return widths.get(text);
}

/** At most `most` characters, with the middle omitted, because beginning and end distinguish words. */
export function shorten(text, most) {
  if (text.length <= most) return text;
  const parts = clusters(text);
  if (parts.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  const [head, gap, tail] = [parts.slice(0, half), parts.slice(half, -half), parts.slice(-half)]
    .map((some) => some.join(""));
  return `${head}${joiner(head, gap)}…${joiner(gap, tail)}${tail}`;
}

/** Makes spaces, line ends, direction marks and the marks of fields and symbols visible. */
export function visible(text) {
  return withoutOrders(text).replace(/[ \n\t\ufdd0\ufdd1]/g, (character) => SIGNS[character]) || "∅";
}

/** A part of a text without the spaces around it. */
export function wordText(text) {
  return visible(text.trim() === "" ? text : text.trim());
}

/** A name, such as a label, as it is written: with its spaces, and without what would change its place. */
export function nameText(text) {
  return withoutOrders(text).replace(/[\n\t\ufdd0\ufdd1]/g, (character) => SIGNS[character]).trim();
}

/** The label of a single token. characters: those of its text. */
export function pieceLabel({ text, start, end, special }, characters) {
  if (special in MARKS) return MARKS[special];
  return standing(wordText(text), part(characters, start - NEAR, start), part(characters, end, end + NEAR));
}

/**
 * Tokens in groups that can be separated without breaking the script: [{places, text, special, joined,
 * leftward}, …]. Tokens that share a letter, such as its bytes or its marks, are one group; `joined` groups
 * have a letter that joins one of a neighbour.
 */
export function grouped(pieces, characters) {
  const [found, starts] = [[], new Set()];
  let [at, reach] = [0, 0];
  for (const cluster of clusters(characters.join(""))) {
    starts.add(at);
    at += [...cluster].length;
  }
  pieces.forEach(({ start, end, special }, place) => {
    const apart = special in MARKS || start === end || (start >= reach && starts.has(start));
    if (apart || !found.length) found.push({ places: [], start, end, special });
    const group = found.at(-1);
    group.places.push(place);
    group.end = reach = Math.max(reach, end);
  });
  return found.map((group) => ({ ...group, ...shapeOf(group, characters) }));
}

function shapeOf({ start, end, special }, characters) {
  if (special in MARKS) return { text: MARKS[special], joined: false, leftward: false };
  const text = part(characters, start, end);
  const [before, after] = [part(characters, start - NEAR, start), part(characters, end, end + NEAR)];
  const joined = joins(before, text) || joins(text, after);
  return { text: wordText(text), joined, leftward: rightToLeft(text) };
}

function part(characters, from, to) {
  return characters.slice(Math.max(0, from), to).join("");
}

/** "Step 3", "Token 3"; a single one has no number. */
export function stepName({ names: { step }, length }, t) {
  const name = step.charAt(0).toUpperCase() + step.slice(1);
  return length > 1 ? `${name} ${t + 1}` : name;
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
