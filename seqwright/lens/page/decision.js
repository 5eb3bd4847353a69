// Which words carried a prediction: the weights of the attention pooling next to gradient × input.

import { chosenMatrix } from "./attention.js";
import { css, inkOn } from "./colours.js";
import { unitChoice } from "./alignment.js";
import { bold, canvas, element, paragraph, scroll, svg, words } from "./elements.js";
import { percent, probability, rankCorrelation, short, total } from "./numbers.js";
import { shorten, stepName } from "./text.js";

const SHOWN = 24; // items drawn as bars, the largest ones
const [LEFT, NUMBER, ROW, TOP, GAP] = [104, 56, 26, 30, 16]; // pixels: labels, numbers, a bar, heading, space
const ROOM = 620; // pixels from which two charts fit side by side
const STRONGEST = 0.85; // of the difference scale: text on it is still readable
const FAINT = 0.02; // nats: smaller effects are drawn as small, although none is larger

export const decision = {
  name: "decision",
  title: "Decision",
  lead: ({ names }) => (
    `Which words carried the ${names.symbol}: where the model looked, and what moved its probability.`),
  depends: ["a", "unit"],
  applies: ({ decoded, given, document }) => !decoded && !given && document.source !== null,
  controls: ({ state, set }) => unitChoice(state, set),
  draw,
};

async function draw(page) {
  const { trace, state } = page;
  const items = itemsOf(trace, state.unit);
  const effects = await contributed(trace, items, state.t);
  const weights = await pooled(trace, items, state.t);
  const rows = [
    weights && { name: "Attention pooling", values: weights, scale: "ramp" },
    effects && { name: "Gradient × input", values: effects, scale: "difference" },
  ].filter(Boolean);
  const texts = rows.map((row) => element("div", { class: "carried" },
    element("h3", {}, row.name), shaded(items, row, page.colours)));
  const picture = bars(page, items, rows);
  const node = element("div", {}, verdict(trace, state.t), texts, caution(trace, items, effects, weights),
    rows.length > 0 && scroll(picture));
  const columns = [state.unit === "words" ? "word" : "token", ...rows.map((row) => row.name.toLowerCase())];
  const line = ({ label }, at) => [label, ...rows.map(({ values }) => values[at])];
  return rows.length ? { node, picture, table: { columns, rows: items.map(line) } } : { node };
}

/** The tokens of the source, or its words, in order: [{label, places}, …]; the end token is its own item. */
export function itemsOf(trace, unit) {
  const found = [];
  let before = null;
  trace.axis("source").forEach(({ label, word, sink }, place) => {
    const whole = unit === "words" && word !== null;
    const name = whole ? trace.words.source[word] : label;
    if (!whole || word !== before) found.push({ label: name, places: [], sink });
    before = word;
    found.at(-1).places.push(place);
  });
  return found;
}

function summed(items, values) {
  return items.map(({ places }) => total(places.map((place) => values[place])));
}

async function contributed(trace, items, t) {
  const packed = trace.document.contributions?.source;
  if (!packed) return null;
  const { values, shape: [, size] } = await trace.array(packed);
  return summed(items, values.subarray(t * size, (t + 1) * size));
}

/**
 * The pooling weights of the step; null if the head does not pool by attention. If it pools parts, such as
 * sentences, a word has its weight in its part times that of the part.
 */
async function pooled(trace, items, t) {
  const between = (rows, columns) => trace.kinds.find((kind) => {
    const found = trace.kind(kind);
    return found.rows === rows && (columns === undefined || found.columns === columns);
  });
  const [direct, first] = [between("steps", "source"), between("steps")];
  if (direct) return summed(items, (await rowsOf(trace, direct))[t]);
  const second = first && between(trace.kind(first).columns, "source");
  if (!second) return null;
  const [parts, inside] = await Promise.all([rowsOf(trace, first), rowsOf(trace, second)]);
  const weight = (place) => total(inside.map((row, part) => parts[t][part] * row[place]));
  return items.map(({ places }) => total(places.map(weight)));
}

/** The rows of the weights of a kind. */
export async function rowsOf(trace, kind) {
  const choice = { kind, layer: -1, head: "all", join: "mean", unit: "pieces", sink: true };
  const { values, rows, columns } = await chosenMatrix(trace, choice);
  return Array.from({ length: rows }, (_, row) => values.subarray(row * columns, (row + 1) * columns));
}

/** The prediction of a step, and the most probable others. */
export function verdict(trace, t) {
  const { id, top, log_prob: logProb } = trace.document.steps[t];
  const others = top.filter(([other]) => other !== id).slice(0, 2)
    .map(([other, score], place) => (
      [place > 0 && ", ", bold(trace.symbol(other)), ` ${percent(probability(score))}`]));
  const at = trace.placeOf(t);
  const where = at !== null && [", ", bold(trace.axes.source[at].label)];
  return paragraph("big facts", stepName(trace, t), where, ": ", bold(trace.symbol(id), "now"),
    ` ${percent(probability(logProb))}`,
    element("span", { class: "quiet" }, others.length > 0 && ", then ", others));
}

/** The text with each item in its colour: from 0, or from negative to positive. */
function shaded(items, { values, scale }, colours) {
  const most = largestSize(values, scale);
  return element("p", { class: "tokens", dir: "auto" }, items.flatMap(({ label, sink }, at) => {
    const share = values[at] / most;
    const place = scale === "ramp" ? 235 * share : 127.5 + 127.5 * STRONGEST * share;
    const colour = colours[scale][Math.round(Math.max(0, Math.min(255, place)))];
    return [at > 0 && " ", element("span", {
      class: sink ? "chip begins end" : "chip begins",
      style: `background:${css(colour)};color:${inkOn(colour)}`,
      title: `${label}: ${short(values[at], 4)}`,
    }, label)];
  }));
}

/** The value that has the full colour and the longest bar. */
function largestSize(values, scale) {
  return Math.max(scale === "difference" ? FAINT : 0, ...values.map(Math.abs)) || 1;
}

/** Why neither measure is an explanation, and how far they agree. */
function caution(trace, items, effects, weights) {
  const alike = effects && weights && items.length > 2
    ? rankCorrelation(effects.map(Math.abs), weights) : NaN;
  return paragraph("quiet facts",
    !weights && `${trace.absent("pool", "the head does not pool by attention")} `,
    !effects && `${trace.absent("contributions", "the contributions were not computed")} `,
    weights && "A pooling weight is how much of a token's vector was taken, not how much it mattered: "
      + "attention alone does not prove a cause (Jain & Wallace 2019, arXiv 1902.10186). ",
    effects && `Gradient × input ${weights ? "checks it" : "measures"}: how the log-probability changes with `
      + "each token, to first order; orange raises it, blue lowers it. ",
    Number.isFinite(alike) && ["Rank correlation of the two: ", bold(short(alike, 2)), "."]);
}

/** A chart per measure, side by side or, on a narrow screen, one below the other. */
function bars({ state }, items, rows) {
  const shown = largest(items, rows);
  const width = Math.min(state.width, 900);
  const beside = width >= ROOM;
  const [across, tall] = [beside ? width / Math.max(1, rows.length) : width, TOP + shown.length * ROW];
  const picture = canvas("Contribution of each word", width, beside ? tall : rows.length * (tall + GAP));
  rows.forEach((row, place) => {
    const [x, y] = beside ? [place * across, 0] : [0, place * (tall + GAP)];
    picture.append(svg("g", { transform: `translate(${x} ${y})` }, chart(row, items, shown, across)));
  });
  return picture;
}

/** A bar per item; those of signed values start at a middle line. */
function chart({ name, values, scale }, items, shown, width) {
  const most = largestSize(shown.map((at) => values[at]), scale);
  const signed = scale === "difference";
  const room = width - LEFT - NUMBER;
  const zero = signed && values.some((value) => value < 0) ? LEFT + room / 2 : LEFT;
  const reach = LEFT + room - zero;
  const line = (at, row) => {
    const [y, value] = [TOP + (row + 0.5) * ROW, values[at]];
    const long = Math.max(1, (reach * Math.abs(value)) / most);
    const x = value < 0 ? zero - long : zero;
    const colour = !signed ? "var(--data)" : value < 0 ? "var(--lowers)" : "var(--raises)";
    const text = signed ? (value > 0 ? "+" : "") + value.toFixed(3).replace("-", "−") : percent(value);
    return [
      words(shorten(items[at].label, 14), LEFT - 10, y, { "text-anchor": "end" }),
      svg("rect", { x, y: y - 8, width: long, height: 16, rx: 2, fill: colour }),
      words(text, zero + (value < 0 ? 6 : long + 6), y, { fill: "var(--quiet)", "font-size": 11 }),
    ];
  };
  const end = TOP + shown.length * ROW;
  return [
    words(name.toLowerCase(), LEFT, 10, { fill: "var(--quiet)", "font-size": 12 }),
    zero > LEFT && svg("line", { x1: zero, x2: zero, y1: TOP, y2: end, stroke: "var(--line)" }),
    shown.map(line),
  ];
}

/** The positions of the items that are drawn, in order. */
function largest(items, rows) {
  const share = ({ values }) => {
    const most = Math.max(...values.map(Math.abs)) || 1;
    return (at) => Math.abs(values[at]) / most;
  };
  const shares = rows.map(share);
  const size = (at) => Math.max(0, ...shares.map((of) => of(at)));
  return [...items.keys()].sort((a, b) => size(b) - size(a)).slice(0, SHOWN).sort((a, b) => a - b);
}
