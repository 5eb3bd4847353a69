// Text as it is measured, cut and made visible.

const SIGNS = { " ": "␣", "\n": "↵", "\t": "⇥", "\ufdd0": "│", "\ufdd1": "" };
const measure = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** The width of a text in a picture, in pixels at 13 px. */
export function textWidth(text) {
  if (!widths.has(text)) {
    measure.font = `13px ${getComputedStyle(document.body).fontFamily}`;
    widths.set(text, measure.measureText(text).width);
  }
  return widths.get(text);
}

/** At most `most` characters, with the middle left out: beginning and end tell words apart. */
export function shorten(text, most) {
  const characters = [...text];
  if (characters.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return `${characters.slice(0, half).join("")}…${characters.slice(-half).join("")}`;
}

/** What cannot be seen, made visible: spaces, ends of lines, the marks between fields and before symbols. */
export function visible(text) {
  return text.replace(/[ \n\t\ufdd0\ufdd1]/g, (character) => SIGNS[character]) || "∅";
}

/** A piece without the space before its word, which is said by its place. */
export function pieceText(piece) {
  if (piece.special === "end") return "⟨end⟩";
  return visible(piece.text.trim() === "" ? piece.text : piece.text.trim());
}

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
