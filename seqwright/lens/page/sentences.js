// The weights of both levels of a hierarchical encoder: a line per sentence (Yang et al. 2016, figure 5).

import { unitChoice } from "./alignment.js";
import { css, inkOn } from "./colours.js";
import { itemsOf, rowsOf } from "./decision.js";
import { element, paragraph } from "./elements.js";
import { short, total } from "./numbers.js";

const NUMBERED = 0.25; // of the darkest shade: words from there on have their weight next to them
const STRONGEST = 0.85; // of the difference scale: text on it is still readable
const WORDS = "words"; // the kind of the weights of the lower level

export const sentences = {
  name: "sentences",
  title: "Sentences",
  lead: (trace) => `Which ${partsOf(trace)} the model read most, and which words in them.`,
  depends: ["a", "t", "unit"],
  applies: (trace) => trace.kinds.includes(WORDS) && !trace.decoded, // a conversation has Turns
  unavailable: ({ trace }) => !trace.kinds.includes(WORDS) && "This model does not read its input in parts.",
  controls: ({ state, set }) => unitChoice(state, set),
  draw,
};

/** The name of the axis of the parts: "sentences". */
function partsOf(trace) {
  return trace.document.kinds[WORDS]?.rows ?? "sentences";
}

async function draw({ trace, state, colours }) {
  const axis = partsOf(trace);
  const upper = trace.kinds.find((kind) => trace.kind(kind).columns === axis);
  const [inside, outside] = await Promise.all([rowsOf(trace, WORDS), upper && rowsOf(trace, upper)]);
  const weights = outside ? [...outside[state.t]] : inside.map(() => 1 / inside.length);
  const lines = linesOf(trace, axis, state.unit).map((items, place) => items.map(({ label, places }) => {
    const weight = total(places.map((at) => inside[place][at]));
    return { label, weight, shade: Math.sqrt(weights[place]) * weight };
  }));
  const darkest = Math.max(...lines.flat().map(({ shade }) => shade)) || 1;
  const heaviest = Math.max(...weights) || 1;
  const rows = lines.map((items, place) => element("tr", {},
    element("td", { class: "number" }, part(weights[place], heaviest, colours)),
    element("td", { class: "tokens", dir: "auto" },
      items.flatMap((item) => [word(item, weights[place], darkest, colours), " "]))));
  const node = element("div", {}, explanation(axis, upper),
    element("table", { class: "levels" }, element("tbody", {}, rows)));
  const columns = [axis.replace(/s$/, ""), "its weight", state.unit === "words" ? "word" : "token",
    "weight", "√ its weight · weight"];
  const numbers = lines.flatMap((items, place) => items.map(({ label, weight, shade }) => (
    [String(place + 1), weights[place], label, weight, shade])));
  return { node, table: { columns, rows: numbers } };
}

/** The items of the source by part. A part begins where its first token does, a word ends with its last. */
export function linesOf(trace, axis, unit) {
  const starts = trace.document.axes[axis].pieces.map(({ start }) => start);
  const tokens = trace.document.source.pieces;
  const partOf = (place) => starts.findLastIndex((start) => start <= tokens[place].start);
  const items = itemsOf(trace, unit);
  const written = (places) => trace.characters.source
    .slice(tokens[places[0]].start, tokens[places.at(-1)].end).join("").trim();
  return starts.map((_, part) => items
    .map((item) => ({ ...item, places: item.places.filter((place) => partOf(place) === part) }))
    .filter(({ places }) => places.length)
    .map((item) => ({ ...item, label: (unit === "words" && written(item.places)) || item.label })));
}

function part(weight, heaviest, { difference }) {
  return chip(difference[Math.round(127.5 + 127.5 * STRONGEST * (weight / heaviest))],
    `weight ${short(weight, 4)}`, weight.toFixed(3));
}

export function word({ label, weight, shade }, outer, darkest, { ramp }) {
  const share = shade / darkest;
  const numbers = `${label}: ${short(weight, 4)} · √${short(outer, 4)} = ${short(shade, 4)}`;
  return chip(ramp[Math.round(235 * share)], numbers, label,
    share >= NUMBERED && element("small", {}, weight.toFixed(2)));
}

function chip(colour, title, ...children) {
  const style = `background:${css(colour)};color:${inkOn(colour)}`;
  return element("span", { class: "chip begins", style, title }, children);
}

function explanation(axis, upper) {
  const one = axis.replace(/s$/, "");
  return paragraph("quiet facts",
    upper ? `The number of a line is the weight p_s of the ${one}; the weights of all lines sum to 1. `
      : `The head does not pool the ${axis} by attention; each has the same weight here. `,
    `A word has its weight p_w in its ${one} and is shaded by √p_s · p_w, so that only important words of `
      + `important ${axis} stand out (Yang et al. 2016, section 3.5). Both are how much of a vector was `
      + "taken; gradient × input (Decision) is the check.");
}
