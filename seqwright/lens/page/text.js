// Text as it is measured, cut and made visible.

import { clusters, joiner, joins, rightToLeft, standing } from "./scripts.js";

const SIGNS = { " ": "␣", "\n": "↵", "\t": "⇥", "\ufdd0": "│", "\ufdd1": "" };
const NEAR = 12; // characters around a piece that decide the forms of its letters
const measure = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** The width of a text in a picture, in pixels at 13 px, in the bold letters of what is current. */
export function textWidth(text) {
  if (!widths.has(text)) {
    measure.font = `650 13px ${getComputedStyle(document.body).fontFamily}`;
    widths.set(text, measure.measureText(text).width);
  }
  return widths.get(text);
}

/** At most `most` characters, with the middle left out: beginning and end tell words apart. */
export function shorten(text, most) {
  if (text.length <= most) return text;
  const parts = clusters(text);
  if (parts.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  const [head, gap, tail] = [parts.slice(0, half), parts.slice(half, -half), parts.slice(-half)]
    .map((some) => some.join(""));
  return `${head}${joiner(head, gap)}…${joiner(gap, tail)}${tail}`;
}

/** What cannot be seen, made visible: spaces, ends of lines, the marks between fields and before symbols. */
export function visible(text) {
  return text.replace(/[ \n\t\ufdd0\ufdd1]/g, (character) => SIGNS[character]) || "∅";
}

/** A part of a text without the space before its word, which is said by its place. */
export function wordText(text) {
  return visible(text.trim() === "" ? text : text.trim());
}

/** A piece as it is named where it stands alone. characters: those of the text that it is a piece of. */
export function pieceLabel({ text, start, end, special }, characters) {
  if (special === "end") return "⟨end⟩";
  return standing(wordText(text), part(characters, start - NEAR, start), part(characters, end, end + NEAR));
}

/**
 * Pieces in groups that can be told apart without breaking how the text is written: [{places, text, special,
 * joined, leftward}, …]. Pieces that share a letter, such as its bytes or its marks, are one group; `joined`
 * groups have a letter that joins one of a neighbour.
 */
export function grouped(pieces, characters) {
  const [found, starts] = [[], new Set()];
  let [at, reach] = [0, 0];
  for (const cluster of clusters(characters.join(""))) {
    starts.add(at);
    at += [...cluster].length;
  }
  pieces.forEach(({ start, end, special }, place) => {
    const apart = special === "end" || start === end || (start >= reach && starts.has(start));
    if (apart || !found.length) found.push({ places: [], start, end, special });
    const group = found.at(-1);
    group.places.push(place);
    group.end = reach = Math.max(reach, end);
  });
  return found.map((group) => ({ ...group, ...shapeOf(group, characters) }));
}

function shapeOf({ start, end, special }, characters) {
  if (special === "end") return { text: "⟨end⟩", joined: false, leftward: false };
  const text = part(characters, start, end);
  const [before, after] = [part(characters, start - NEAR, start), part(characters, end, end + NEAR)];
  const joined = joins(before, text) || joins(text, after);
  return { text: wordText(text), joined, leftward: rightToLeft(text) };
}

function part(characters, from, to) {
  return characters.slice(Math.max(0, from), to).join("");
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
