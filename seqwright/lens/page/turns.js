// A conversation at the current step of the reply: a line per turn, with its weight as a bar and its words
// shaded (Xing et al. 2018, the figure of word and utterance attention).

import { headMenus, unitChoice } from "./alignment.js";
import { chosenMatrix, noAttention, stepHeads } from "./attention.js";
import { rowsOf } from "./decision.js";
import { bold, element, paragraph } from "./elements.js";
import { percent, short, total } from "./numbers.js";
import { linesOf, word } from "./sentences.js";

const MARKER = "│"; // between turns
const [AXIS, WORDS, UPPER] = ["turns", "words", "cross"];

export const turns = {
  name: "turns",
  title: "Turns",
  lead: "Which turns of the conversation the model reads when it writes each token, and which words in them.",
  depends: ["a", "t", "unit", "kind", "layer", "head"],
  applies: ({ decoded, document }) => decoded && AXIS in document.axes,
  unavailable: ({ trace }) => !trace.kinds.includes(UPPER) && noAttention(trace),
  controls: ({ trace, state, set }) => [
    unitChoice(state, set), headMenus(trace, { ...state, ...chosen(trace, state) }, set),
  ],
  draw,
};

/** The heads that look at the turns, or at their tokens. */
function chosen(trace, state) {
  if (!isHierarchical(trace)) return stepHeads(trace, state);
  const { layer, head } = state.kind === UPPER ? state : { layer: -1, head: "all" };
  return { kind: UPPER, layer, head };
}

function isHierarchical(trace) {
  return trace.document.kinds[UPPER].columns === AXIS;
}

async function draw({ trace, state, colours }) {
  const { weights, inside, shadeOf } = await levels(trace, state);
  const lines = linesOf(trace, AXIS, state.unit).map((items, place) => items
    .filter(({ label, sink }) => label !== MARKER && !sink)
    .map(({ label, places }) => {
      const weight = inside && total(places.map((at) => inside[place][at]));
      return { label, weight, shade: inside ? shadeOf(weights[place], weight) : 0 };
    }));
  const darkest = Math.max(...lines.flat().map(({ shade }) => shade)) || 1;
  const heaviest = Math.max(...weights) || 1;
  const rows = lines.map((items, place) => element("tr", {},
    element("td", { class: "turn" }, `turn ${place + 1}`),
    element("td", { class: "number" }, weights[place].toFixed(3)),
    element("td", { class: "bar" }, element("i", {
      style: `width:${Math.max(1, 100 * (weights[place] / heaviest)).toFixed(1)}%`,
      title: `turn ${place + 1}: ${short(weights[place], 4)}`,
    })),
    element("td", { class: "tokens", dir: "auto" }, items.flatMap((item) => [
      inside ? word(item, weights[place], darkest, colours) : item.label, " "]))));
  const node = element("div", {}, sentence(trace, state.t, weights),
    element("table", { class: "levels" }, element("tbody", {}, rows)), explanation(trace, inside, weights));
  const unit = state.unit === "words" ? "word" : "token";
  const columns = ["turn", "its weight", unit, "weight in the turn", "shade"];
  const numbers = lines.flatMap((items, place) => items.map(({ label, weight, shade }) => (
    [String(place + 1), weights[place], label, weight, shade])));
  return { node, table: { columns, rows: numbers } };
}

/** The weight of each turn at this step, and of each token in its turn; null without such weights. */
async function levels(trace, state) {
  const heads = { ...chosen(trace, state), join: "mean", unit: "pieces", sink: true };
  const { values, columns } = await chosenMatrix(trace, heads);
  const row = [...values.subarray(state.t * columns, (state.t + 1) * columns)];
  if (isHierarchical(trace)) {
    const inner = trace.kinds.includes(WORDS) ? await rowsOf(trace, WORDS) : null;
    const inside = inner && (trace.follows(WORDS) ? row.map(() => inner[state.t]) : inner);
    return { weights: row, inside, shadeOf: (outer, weight) => Math.sqrt(outer) * weight };
  }
  const parts = linesOf(trace, AXIS, "pieces").map((items) => items
    .filter(({ label, sink }) => label !== MARKER && !sink).flatMap(({ places }) => places));
  const weights = parts.map((places) => total(places.map((at) => row[at])));
  const inside = weights.map((weight) => row.map((value) => (weight > 0 ? value / weight : 0)));
  return { weights, inside, shadeOf: (outer, weight) => outer * weight };
}

function sentence(trace, t, weights) {
  const most = Math.max(...weights);
  return paragraph("facts", "To write ", bold(trace.axes.steps[t].label, "now"), ": most weight, ",
    percent(most), `, on turn ${weights.indexOf(most) + 1} of ${weights.length}`,
    weights.length > 1 && `; even weights would be ${percent(1 / weights.length)}`, ".");
}

function explanation(trace, inside, weights) {
  const own = "Weights are how much of a vector was taken; Contributions is the check.";
  if (!isHierarchical(trace)) {
    const rest = Math.max(0, 1 - total(weights));
    const where = trace.document.model.encoder ? "on the marks between turns and the end"
      : "on the marks and on the reply so far";
    return paragraph("quiet facts", "The model reads all turns as one text: the weight of a turn is the sum ",
      `of its tokens, and a word is shaded by its weight. The rest, ${percent(rest)}, is ${where}. ${own}`);
  }
  const follow = trace.follows(WORDS) ? "Both levels follow the step. "
    : "The weights of turns follow the step; those of words in a turn do not: their query is learned. ";
  return paragraph("quiet facts", "The bar is the weight p_u of the turn. ",
    inside ? "A word has its weight p_w in its turn and is shaded by √p_u · p_w. "
      : "The words of a turn are not pooled by attention. ",
    inside && follow, own);
}
