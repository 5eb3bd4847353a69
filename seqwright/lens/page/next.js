// The distribution of the next token, with temperature, top-k and top-p, and the branches of the step.

import { branchesAt, branchList, branchToggle } from "./branch.js";
import { bold, canvas, element, paragraph, scroll, slider, svg, words } from "./elements.js";
import { percent, probability, reshape, short } from "./numbers.js";
import { shorten } from "./text.js";

const SHOWN = 16;
const [LEFT, RIGHT, ROW] = [130, 74, 28]; // pixels: labels, numbers, a bar
const SIDE = 492; // pixels of the branches next to the bars, and of the gap
const ROOM = 960; // pixels from which both fit

export const next = {
  name: "next",
  title: (trace) => (oneByOne(trace) ? "Next token" : "Prediction"),
  lead: (trace) => {
    if (!oneByOne(trace)) return `The probability of each ${trace.names.symbol}.`;
    return trace.given
      ? "The probabilities of the token at this position, after the tokens before it, with sampling options."
      : "Next-token probabilities at this step, with sampling options."
        + (trace.searched ? " Click a token to see its output." : "");
  },
  depends: ["a"],
  controls,
  draw,
};

/** Whether the predictions are tokens that follow each other, which could be sampled. */
function oneByOne({ decoded, given }) {
  return decoded || given;
}

function controls({ trace, state, set }) {
  if (!oneByOne(trace)) return null;
  const all = (most) => (value) => (value === most ? "all" : String(value));
  const digits = (value) => value.toFixed(2);
  const temperature = { min: 0.1, max: 3, step: 0.05, value: state.temperature, format: digits };
  const topK = { min: 0, max: 50, step: 1, value: state.topk, format: all(0) };
  const topP = { min: 0.05, max: 1, step: 0.01, value: state.topp, format: all(1) };
  return [
    slider("Temperature", temperature, (value) => set({ temperature: value })),
    slider("Top-k", topK, (value) => set({ topk: value })),
    slider("Top-p", topP, (value) => set({ topp: value })),
  ];
}

async function draw(page) {
  const { trace, state } = page;
  const step = trace.document.steps[state.t];
  const stored = await trace.logits(state.t);
  const sampling = { temperature: state.temperature, topK: state.topk, topP: state.topp };
  const shaped = reshape(stored, oneByOne(trace) ? sampling : { temperature: 1, topK: 0, topP: 1 });
  const branches = new Map(branchesAt(trace, state.t).map((one) => [one.id, one]));
  const rows = stored.ids.map((id, place) => ({
    label: trace.symbol(id),
    plain: Math.exp(stored.logits[place] - step.total),
    shaped: shaped.shares[place],
    fate: id === step.id ? "chosen" : place < shaped.kept ? "" : "cut off",
    branch: branches.get(id),
  }));
  const width = trace.searched && state.width >= ROOM ? state.width - SIDE : state.width;
  const picture = bars(page, rows.slice(0, SHOWN), Math.min(width, 860));
  const facts = paragraph("facts",
    `${chosenAs(trace, state.t)}: `, bold(trace.symbol(step.id), "now"), `, rank ${step.rank}, `,
    `probability ${percent(probability(step.log_prob))}. Entropy ${short(step.entropy, 2)} nats, like a `,
    `uniform choice among ${short(Math.exp(step.entropy), 1)} ${trace.names.symbol}s. `,
    oneByOne(trace) && `The sliders act on the ${stored.ids.length} most probable tokens; `
      + "thin marks show the probabilities before. ",
    restText(shaped.rest, state));
  const main = element("div", { class: "main" }, facts, scroll(picture));
  const node = element("div", { class: "columns" }, main, trace.searched && branchList(page));
  return { node, picture, table: tableOf(rows, trace.searched) };
}

/** How the token of a step came about. */
function chosenAs(trace, t) {
  if (!trace.given) return trace.decoded ? "Chosen" : "Predicted";
  return trace.document.output.pieces[t].special === "next" ? "Most probable after the text" : "In the text";
}

function tableOf(rows, branched) {
  const columns = ["token", "probability", "after the sliders", "", "output of the branch", "log p", "score"];
  const row = ({ label, plain, shaped, fate, branch }) => (
    [label, plain, shaped, fate, branch?.text, branch?.log_prob, branch?.score]);
  const count = branched ? columns.length : 4;
  return { columns: columns.slice(0, count), rows: rows.map((one) => row(one).slice(0, count)) };
}

/**
 * The probability of all tokens that are not listed: a bound if the temperature is not 1 (docs/trace.md), or
 * if top-p cuts among them.
 */
function restText(rest, { temperature, topp }) {
  if (rest < 0.0005) return null;
  const [most, least] = [temperature < 1 || topp < 1, temperature > 1];
  const bound = most && least ? "about " : most ? "at most " : least ? "at least " : "";
  return `All other tokens together: ${bound}${percent(rest)}.`;
}

function bars(page, rows, width) {
  const most = Math.max(...rows.flatMap(({ plain, shaped }) => [plain, shaped]));
  const long = (share) => ((width - LEFT - RIGHT) * share) / most;
  const picture = canvas("Probabilities of the next token", width, rows.length * ROW + 4);
  rows.forEach((row, place) => picture.append(bar(page, row, place * ROW + 2, width, long)));
  return picture;
}

/** A labelled bar with a mark at the original probability; a click shows the branch, if it has one. */
function bar(page, { label, plain, shaped, fate, branch }, y, width, long) {
  const chosen = fate === "chosen";
  const [x, end, middle] = [LEFT + long(plain), LEFT + long(Math.max(shaped, plain)) + 8, y + ROW / 2];
  const fill = chosen ? "var(--accent)" : branch ? "var(--data)" : shaped ? "var(--ink)" : "var(--quiet)";
  const name = { "text-anchor": "end", "font-size": 14, "font-weight": chosen ? 650 : 400, fill };
  const mark = { x1: x, x2: x, y1: y + 3, y2: y + ROW - 3, stroke: "var(--ink)", "stroke-width": 1.5 };
  const quiet = { fill: "var(--quiet)", "font-size": 12 };
  const box = { x: LEFT, y: y + 5, width: long(shaped), height: ROW - 10, rx: 3 };
  const open = branch && page.trace.branch(page.state.branch) === branch;
  const ground = { x: 0, y, width, height: ROW, rx: 5, fill: open ? "var(--soft)" : "transparent" };
  return svg("g", branch ? { class: "token turn", onclick: branchToggle(page, branch) } : {},
    branch && svg("title", {}, `${label}: ${branch.text}`),
    svg("rect", ground),
    words(shorten(label, 14), LEFT - 12, middle, { ...name, "text-decoration": branch && "underline" }),
    svg("rect", { ...box, fill: chosen ? "var(--accent)" : "var(--data)" }),
    oneByOne(page.trace) && svg("line", { ...mark, "stroke-opacity": 0.55 }),
    words(shaped ? percent(shaped) : "cut off", end, middle, quiet));
}
