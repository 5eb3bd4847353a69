// Scripts that a cut would break: joining letters, combining marks, text from right to left.

const JOINER = "\u200d"; // a letter next to it takes its joined form
const [ISOLATE, RELEASE] = ["\u2068", "\u2069"]; // text between them keeps its own direction
const scripts = (...names) => names.map((name) => `\\p{Script=${name}}`).join("");
const RIGHT_TO_LEFT = new RegExp(`[${scripts("Adlam", "Arabic", "Hanifi_Rohingya", "Hebrew", "Mandaic", "Nko",
  "Samaritan", "Syriac", "Thaana")}]`, "u");
const JOINING = new RegExp(`^[\u0640${scripts("Adlam", "Arabic", "Hanifi_Rohingya", "Mandaic", "Mongolian",
  "Nko", "Phags_Pa", "Syriac")}]$`, "u");
// Letters that join none after them, and none at all: joining types R and U of the Unicode Character Database
const ENDS = "\u0622-\u0625\u0627\u0629\u062f-\u0632\u0648\u0671-\u0673\u0675-\u0677\u0688-\u0699\u06c0"
  + "\u06c3-\u06cb\u06cd\u06cf\u06d2\u06d3\u06d5\u06ee\u06ef\u0710\u0715-\u0719\u071e\u0728\u072a\u072c"
  + "\u072f\u074d\u0759-\u075b\u076b\u076c\u0771\u0773\u0774\u0778\u0779\u0840\u0846\u0847\u0849\u0854"
  + "\u0856-\u0858\u0867\u0869\u086a\u0870-\u0882\u088e\u08aa-\u08ac\u08ae\u08b1\u08b2\u08b9"
  + "\u{10d22}\u{10ec2}";
const ALONE = "\u0621\u0674\u06e5\u06e6\u07f4\u07f5\u0861\u0866\u0887\u08ad\u08c9\u1880-\u1884\ua873"
  + "\ufb50-\ufdfb\ufe70-\ufefc\u{10ec5}\u{1e94b}\u{1ee00}-\u{1eebb}";
const [LAST, LONE] = [new RegExp(`[${ENDS}${ALONE}]`, "u"), new RegExp(`[${ALONE}\u{10d00}\ua872]`, "u")];
const VIRAMA = "[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca]";
const HALVED = new RegExp(`${VIRAMA}$`, "u");
/** A letter with its marks; consonants that a virama ties, emoji that a joiner ties, lam with alef. */
const CLUSTER = new RegExp("\\p{M}+|\\P{M}\\p{M}*(?:(?:\u200d|"
  + `(?<=${VIRAMA})(?=\\p{L})|(?<=\u0644\\p{M}*)(?=[\u0622\u0623\u0625\u0627]))\\P{M}\\p{M}*)*`, "gu");
const written = new Map(); // label on the page -> original text

export function rightToLeft(text) {
  return RIGHT_TO_LEFT.test(text);
}

/** Whether a text runs from right to left: as its first letter does. */
export function runsLeft(text) {
  return rightToLeft(text.match(/\p{L}/u)?.[0] ?? "");
}

/** The parts of a text that must not be cut. */
export function clusters(text) {
  return text.match(CLUSTER) ?? [];
}

/** Whether the last letter of one text joins the first letter of the next, ignoring marks. */
export function joins(left, right) {
  const before = left.match(/(\P{M})\p{M}*$/u)?.[1] ?? "";
  const after = right.match(/^\p{M}*(\P{M})/u)?.[1] ?? "";
  return JOINING.test(before) && JOINING.test(after) && isLetter(before) && isLetter(after)
    && !LAST.test(before) && !LONE.test(after);
}

function isLetter(character) {
  return /\p{L}/u.test(character);
}

/** The character between a text and an ellipsis for the text after it. */
export function joiner(left, right) {
  return joins(left, right) || (HALVED.test(left) && /^\p{L}/u.test(right)) ? JOINER : "";
}

/**
 * A part of a text on its own, with the letter forms that it has between `before` and `after`: a mark without
 * its letter gets a dotted circle, and text from right to left does not affect its neighbours.
 */
export function standing(text, before = "", after = "") {
  const lead = /^\p{M}/u.test(text) ? "\u25cc" : joins(before, text) ? JOINER : "";
  const shown = lead + text + joiner(text, after);
  const made = rightToLeft(text) ? ISOLATE + shown + RELEASE : shown;
  if (made !== text) written.set(made, text);
  return made;
}

/** The original text of a label, for files. */
export function plain(label) {
  return written.get(label) ?? label;
}
