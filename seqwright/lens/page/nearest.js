// The texts that a retrieval model finds nearest, and the words of the source that bring each of them near.

import { css, inkOn } from "./colours.js";
import { bold, element, paragraph } from "./elements.js";
import { short } from "./numbers.js";
import { shorten } from "./text.js";

const STRONGEST = 0.85; // of the difference scale: text on it is still readable
const LONG = 160; // characters of a context that are shown

export const nearest = {
  name: "nearest",
  title: "Nearest",
  lead: ({ names }) => `The nearest texts of the training data, and which words of the ${names.source} bring `
    + "each of them near.",
  depends: ["a"],
  applies: ({ document }) => Boolean(document.neighbours),
  unavailable: ({ trace }) => !trace.document.neighbours && "This model does not retrieve.",
  draw,
};

function draw({ trace, colours }) {
  const { words, texts, least, method } = trace.document.neighbours;
  const most = Math.max(...texts.flatMap(({ effects }) => effects.map(Math.abs))) || 1;
  const best = Math.max(...texts.map(({ cosine }) => cosine));
  const rows = texts.map((one) => row(one, trace, { words, least, most, best, colours }));
  const node = element("div", {},
    paragraph("quiet facts", "The number is the cosine of the vectors of the ",
      `${trace.names.source} and the ${trace.names.output}; below ${short(least, 3)} nothing fits. `,
      "A word is orange if it brings the text ",
      `nearer and blue if it moves it away: ${method}, computed again without each word in turn. `,
      "Effects of several words do not add up."),
    element("ol", { class: "nearest" }, rows));
  const table = texts.flatMap((one, place) => words.map((word, at) => (
    [String(place + 1), one.text, one.cosine, String(word.turn + 1), word.text, one.effects[at]])));
  return { node, table: { columns: ["rank", "text", "cosine", "turn", "word", "effect"], rows: table } };
}

function row({ id, text, cosine, effects, context, alike }, trace, { words, least, most, best, colours }) {
  const own = id === trace.document.steps[0].id;
  const chips = words.flatMap((word, at) => [
    at > 0 && word.turn !== words[at - 1].turn && element("span", { class: "quiet" }, " │"),
    at > 0 && " ", effect(word.text, effects[at] / most, effects[at], colours)]);
  const width = `width:${Math.max(1, (100 * Math.max(0, cosine)) / best).toFixed(1)}%`;
  return element("li", { class: own && "chosen" },
    element("div", { class: "found" },
      element("span", { class: "number" }, cosine.toFixed(3)),
      element("span", { class: "meter" }, element("i", { style: width })),
      element("span", { dir: "auto" }, own ? bold(text, "now") : bold(text)),
      cosine < least && element("small", { class: "quiet" }, " does not fit")),
    element("p", { class: "tokens", dir: "auto" }, chips),
    context.length > 0 && paragraph("quiet", `In the training data after (cosine ${short(alike, 2)}): `,
      element("q", { dir: "auto" }, shorten(context.join(" │ "), LONG))));
}

function effect(text, share, value, { difference }) {
  const colour = difference[Math.round(127.5 + 127.5 * STRONGEST * share)];
  const sign = value > 0 ? "+" : "";
  return element("span", {
    class: "chip begins", style: `background:${css(colour)};color:${inkOn(colour)}`,
    title: `${text}: ${sign}${short(value, 4)}`,
  }, text);
}
