// Contributions of the source and of the previous output to each step, compared with the attention.

import { chosenMatrix, stepHeads } from "./attention.js";
import { bold, canvas, element, paragraph, scroll, sized, svg, words } from "./elements.js";
import { percent, rankCorrelation, short, total } from "./numbers.js";
import { shorten, stepName } from "./text.js";

const SHOWN = 24; // source tokens drawn, the largest ones
const [LEFT, ROW, HEIGHT] = [120, 24, 90]; // pixels: labels, a bar, the stacks

export const why = {
  name: "why",
  title: "Contributions",
  lead: (trace) => (trace.given
    ? "How much each earlier token contributes to this token, compared with attention."
    : "How much the source and the previous output contribute to each step, compared with attention."),
  depends: ["a"],
  applies: (trace) => (trace.decoded && !trace.document.image) || trace.given,
  unavailable: ({ trace }) => (trace.document.contributions || hasShares(trace) ? null : whyNot(trace)),
  draw: (page) => (page.trace.document.contributions ? draw(page) : drawShares(page)),
};

function hasShares({ document }) {
  return document.steps[0].source_share !== null;
}

function whyNot(trace) {
  return trace.absent("contributions", "the contributions were not computed");
}

async function draw(page) {
  const { trace, state } = page;
  const { contributions, steps } = trace.document;
  const axis = contributions.source ? "source" : "prefix";
  const signed = (await rowOf(trace, contributions[axis], state.t)).slice(0, read(axis, state.t));
  const sum = total(signed.map(Math.abs)) || 1;
  const shares = signed.map((value) => Math.abs(value) / sum);
  const attended = await weightsOver(page, axis, shares.length);
  const labels = trace.axis(axis).map((one) => one.label).slice(0, shares.length);
  const width = Math.min(state.width, 900);
  const picture = canvas("Contributions", width, 0);
  const top = stacks(picture, page);
  sized(picture, width, pairs(picture, top, labels, shares, attended));
  const correlation = attended ? rankCorrelation(shares, attended) : NaN;
  const node = element("div", {}, facts(trace, steps[state.t], state.t, correlation), scroll(picture),
    paragraph("quiet", `Contribution: ${contributions.method}. `,
      hasShares(trace) && "A low share of the source is a sign of hallucination (Voita et al. 2021). ",
      "Neither attention (Jain & Wallace 2019, arXiv 1902.10186) nor ",
      "contribution is a full explanation."));
  const rows = labels.map((label, place) => [label, signed[place], shares[place], attended?.[place]]);
  return { node, picture, table: { columns: [axis, "contribution", "share", "attention"], rows } };
}

/** Without single contributions, the view shows the share of the source in each step. */
function drawShares(page) {
  const { trace, state } = page;
  const width = Math.min(state.width, 900);
  const picture = canvas("Contributions", width, 0);
  sized(picture, width, stacks(picture, page));
  const { steps } = trace.document;
  const node = element("div", {}, facts(trace, steps[state.t], state.t, NaN), scroll(picture),
    paragraph("quiet", whyNot(trace)));
  const rows = steps.map((step, t) => [t + 1, trace.axes.steps[t].label, step.source_share]);
  return { node, picture, table: { columns: ["step", "token", "share of the source"], rows } };
}

async function rowOf(trace, packed, t) {
  const { values, shape: [, size] } = await trace.array(packed);
  return [...values.subarray(t * size, (t + 1) * size)];
}

/** The number of tokens that step t can read. */
function read(axis, t) {
  return axis === "prefix" ? t + 1 : undefined;
}

/** The weights of the step over the first `size` tokens of an axis; null if they are pooled or missing. */
async function weightsOver({ trace, state }, axis, size) {
  const heads = stepHeads(trace, state);
  if (!heads || trace.kind(heads.kind).columns !== axis) return null;
  const matrix = await chosenMatrix(trace, { ...state, ...heads, unit: "pieces", sink: true });
  const start = state.t * matrix.columns;
  return Math.max(...matrix.blocks) === 1 ? [...matrix.values.subarray(start, start + size)] : null;
}

function facts(trace, step, t, correlation) {
  const known = step.source_share !== null;
  const share = known && `; the source contributes ${percent(step.source_share)}`;
  const alike = Number.isFinite(correlation)
    && ` Rank correlation of contribution and attention: ${short(correlation, 2)}.`;
  return paragraph("facts", `${stepName(trace, t)}: `, bold(trace.symbol(step.id), "now"), share, ".", alike);
}

/** One bar per step, the source below and the previous output above; returns the height. */
function stacks(picture, { trace, state, set }) {
  const { steps } = trace.document;
  if (!hasShares(trace)) return 0;
  const width = Math.min(64, Number(picture.getAttribute("width")) / steps.length);
  const [gap, top] = [width > 6 ? 3 : 0, 26];
  const square = (colour) => svg("tspan", { fill: colour }, "■");
  const key = words("", 0, 10, { fill: "var(--quiet)", "font-size": 12 });
  key.append(square("var(--data)"), " source   ", square("var(--faint)"), " previous output");
  picture.append(key);
  steps.forEach((step, t) => {
    const [x, share, label] = [t * width, HEIGHT * step.source_share, trace.axes.steps[t].label];
    const bar = (y, height, colour) => svg("rect", { x, y, width: width - gap, height, fill: colour });
    const now = t === state.t ? "var(--accent)" : null;
    const middle = { "text-anchor": "middle", "font-size": 12, fill: now ?? "var(--ink)" };
    const name = shorten(label, Math.max(3, Math.floor(width / 8)));
    picture.append(svg("g", { class: "token", onclick: () => set({ t, playing: "" }) },
      svg("title", {}, `${label}: ${percent(step.source_share)} source`),
      bar(top, HEIGHT, "var(--faint)"), bar(top + HEIGHT - share, share, now ?? "var(--data)"),
      width >= 22 && words(name, x + (width - gap) / 2, top + HEIGHT + 12, middle)));
  });
  return top + HEIGHT + 36;
}

/** Two bars per source token: contribution and attention. */
function pairs(picture, top, labels, shares, attended) {
  const half = (Number(picture.getAttribute("width")) - LEFT) / 2;
  const most = Math.max(...shares, ...(attended ?? [])) || 1;
  const sides = [["contribution", shares, "var(--good)"]];
  if (attended) sides.push(["attention", attended, "var(--data)"]);
  const shown = largest(labels, shares, attended ?? []);
  const named = (place, row) => (
    words(shorten(labels[place], 14), LEFT - 10, top + 34 + row * ROW, { "text-anchor": "end" }));
  picture.append(...shown.map(named));
  sides.forEach(([name, values, colour], side) => {
    const x = LEFT + side * half;
    picture.append(words(name, x, top + 10, { fill: "var(--quiet)", "font-size": 12 }));
    shown.forEach((place, row) => {
      const [y, long] = [top + 34 + row * ROW, Math.max(1, ((half - 70) * values[place]) / most)];
      picture.append(svg("rect", { x, y: y - 8, width: long, height: 16, rx: 2, fill: colour }),
        words(percent(values[place]), x + long + 6, y, { fill: "var(--quiet)", "font-size": 11 }));
    });
  });
  return top + 34 + shown.length * ROW;
}

/** The positions of the tokens that are drawn, in order. */
function largest(labels, shares, attended) {
  const size = (place) => Math.max(shares[place], attended[place] ?? 0);
  return [...labels.keys()].sort((a, b) => size(b) - size(a)).slice(0, SHOWN).sort((a, b) => a - b);
}
