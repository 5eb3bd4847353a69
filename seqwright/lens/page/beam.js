// The beam search: every candidate with its fate, and the finished outputs under another length penalty.

import {
  bold, canvas, element, fill, notice, paragraph, pressed, scroll, slider, svg, words,
} from "./elements.js";
import { penalty, short } from "./numbers.js";
import { listing } from "./table.js";
import { plural, shorten, textWidth } from "./text.js";

const [COLUMN, ROW, LEFT, TOP] = [104, 24, 16, 34]; // pixels
const STEPS = 60; // drawn at a time, around the current one
const ENDED = 12; // outputs listed

export const beam = {
  name: "beam",
  title: "Beam",
  lead: "Candidates of the beam search at each step: blue ones were continued, grey ones dropped.",
  depends: ["a"],
  applies: (trace) => trace.searched,
  unavailable: ({ trace }) => (trace.document.lattice?.step.length > 1 ? null
    : trace.absent("lattice", "the search recorded no candidates")),
  controls,
  draw,
};

function controls({ trace, state, set }) {
  const { length_rule: rule, length_penalty: original } = trace.document.search;
  const [min, max] = [Math.min(0, original), Math.max(2, original)];
  const range = { min, max, step: 0.05, format: (value) => value.toFixed(2) };
  const change = (value) => set({ penalty: value });
  return rule !== "none" && slider("Length penalty", { ...range, value: state.penalty ?? original }, change);
}

function draw({ trace, state, set }) {
  const { search } = trace.document;
  const candidates = read(trace);
  const exponent = state.penalty ?? search.length_penalty;
  const ended = ranked(candidates.filter((one) => one.fate === "finished"), search, exponent);
  const path = new Set(ended.length ? pathTo(candidates, ended[0].place) : []);
  const readout = paragraph("readout", dropped(candidates, state.t + 1));
  readout.setAttribute("role", "status");
  const picture = tree(candidates, path, state.t, {
    show: (one) => fill(readout, bold(one.symbol), describe(one)),
    go: (one) => set({ t: Math.max(0, Math.min(trace.length, one.step) - 1), playing: "" }),
  });
  const frame = scroll(picture);
  const last = candidates.at(-1).step;
  const node = element("div", {}, frame, readout,
    last > STEPS && paragraph("quiet", `${plural(last, "step")}; only those near the current one are drawn.`),
    outputs(trace, candidates, ended, exponent));
  const table = {
    columns: ["step", "token", "previous token", "log p", "score", "fate", "reason"],
    rows: candidates.slice(1).map((one) => (
      [one.step, one.symbol, candidates[one.parent].symbol, one.logProb, one.score, one.fate, one.reason])),
  };
  const here = (state.t + 1 - firstStep(candidates, state.t)) * COLUMN;
  return { node, picture, table, after: () => frame.scrollTo({ left: here - frame.clientWidth / 2 }) };
}

/** The columns of the lattice as candidates. */
function read(trace) {
  const { lattice } = trace.document;
  return lattice.step.map((step, place) => ({
    place,
    step,
    parent: lattice.parent[place],
    token: lattice.token[place],
    symbol: trace.symbol(lattice.token[place]),
    logProb: lattice.log_prob[place],
    score: lattice.score[place],
    fate: lattice.fates[lattice.fate[place]],
    reason: lattice.reasons[lattice.reason[place]],
  }));
}

/** The candidates from the begin token to a given one. */
function pathTo(candidates, place) {
  const path = [];
  for (let at = place; at !== null; at = candidates[at].parent) path.unshift(at);
  return path;
}

/** The finished outputs, best first under a penalty; `moved`: ranks gained compared with the search. */
function ranked(ended, { length_rule: rule, length_penalty: original }, exponent) {
  const order = (power) => ended
    .map((one) => ({ ...one, now: one.logProb / penalty(rule, power, one.step) }))
    .sort((left, right) => right.now - left.now);
  const before = order(original).map((one) => one.place);
  return order(exponent).map((one, rank) => ({ ...one, moved: before.indexOf(one.place) - rank }));
}

function describe({ step, logProb, score, fate, reason }) {
  return ` at step ${step}: cumulative log p ${short(logProb)}, score ${short(score)}, ${fate}: ${reason}.`;
}

/** The dropped candidates of a step with their reasons. */
function dropped(candidates, step) {
  const found = candidates.filter((one) => one.step === step && one.fate === "dropped");
  if (!found.length) return "Point at a candidate to see its score and its fate.";
  const list = found.slice(0, 4).map((one) => `${one.symbol} (${one.reason})`).join(", ");
  return `Dropped at step ${step}: ${list}${found.length > 4 ? ` and ${found.length - 4} more` : ""}.`;
}

function firstStep(candidates, t) {
  return Math.max(0, Math.min(t + 1 - STEPS / 2, candidates.at(-1).step - STEPS));
}

function tree(candidates, path, t, { show, go }) {
  const first = firstStep(candidates, t);
  const shown = candidates.filter((one) => one.step >= first && one.step <= first + STEPS);
  const [places, rows] = placed(shown, first);
  const last = shown.at(-1).step;
  const x = (step) => LEFT + (step - first) * COLUMN;
  const height = TOP + rows * ROW;
  const picture = canvas("Tree of the beam search", x(last) + COLUMN, height, { class: "tree" });
  const now = { x: x(t + 1) - 12, y: 22, width: COLUMN - 14, height: height - 26 };
  picture.append(svg("rect", { ...now, rx: 6, fill: "var(--soft)" }));
  for (let step = Math.max(1, first); step <= last; step++) {
    picture.append(words(`step ${step}`, x(step), 10, { fill: "var(--quiet)", "font-size": 11 }));
  }
  const best = (one) => path.has(one.place);
  picture.append(
    ...shown.filter((one) => places.has(one.parent))
      .map((one) => edge(one, candidates[one.parent], places, best(one))),
    ...shown.map((one) => token(one, places.get(one.place), best(one), show, go)),
  );
  return picture;
}

/** The positions of candidates: a column per step, the most probable on top. */
function placed(shown, first) {
  const [places, taken] = [new Map(), new Map()];
  for (const one of [...shown].sort((left, right) => right.logProb - left.logProb)) {
    const row = taken.get(one.step) ?? 0;
    taken.set(one.step, row + 1);
    places.set(one.place, [LEFT + (one.step - first) * COLUMN, TOP + row * ROW]);
  }
  return [places, Math.max(...taken.values())];
}

function edge(one, parent, places, best) {
  const [[left, from], [x, y]] = [places.get(one.parent), places.get(one.place)];
  const start = left + Math.min(COLUMN - 30, 8 + textWidth(shorten(parent.symbol, 9)));
  const share = Math.exp(one.logProb - parent.logProb);
  return svg("path", {
    d: `M${start} ${from} C${start + 14} ${from} ${x - 24} ${y} ${x - 5} ${y}`,
    fill: "none",
    stroke: best ? "var(--accent)" : one.fate === "dropped" ? "var(--faint)" : "var(--data)",
    "stroke-width": (1 + 4 * share).toFixed(2),
    "stroke-opacity": best ? 1 : 0.65,
  });
}

function token(one, [x, y], best, show, go) {
  const made = words(shorten(one.symbol, 9), x, y, {
    class: "token",
    ...pressed(() => go(one)),
    "data-key": `candidate ${one.place}`,
    "data-fate": one.fate,
    "aria-label": one.symbol + describe(one),
    fill: best ? "var(--accent)" : one.fate === "dropped" ? "var(--quiet)" : "var(--ink)",
    "font-weight": best ? 650 : 400,
    onpointerenter: () => show(one),
    onfocus: () => show(one),
  });
  if (one.fate === "finished") made.append(svg("tspan", { fill: "var(--good)", dx: 4 }, "■"));
  return made;
}

/** The finished outputs, ranked by the current penalty. */
function outputs(trace, candidates, ended, exponent) {
  if (!ended.length) return notice("No output was finished.");
  const { length_rule: rule, length_penalty: original } = trace.document.search;
  const power = exponent.toFixed(2);
  const divisor = { wu: `((5 + length) / 6)^${power}`, mean: `length^${power}`, none: "1" }[rule];
  const arrow = (moved) => (moved > 0 ? `▲ ${moved}` : moved < 0 ? `▼ ${-moved}` : "");
  const rows = ended.slice(0, ENDED).map((one, rank) => {
    const text = textOf(trace, candidates, one);
    const cells = [rank + 1, arrow(one.moved), text, one.step, short(one.logProb), short(one.now)];
    return { cells, strong: rank === 0 };
  });
  const title = `Finished outputs, ranked by log p / ${divisor}`;
  return element("div", {},
    element("h3", {}, title, exponent !== original && ` (the search used ${original.toFixed(2)})`),
    listing("ended", ["", "", "output", "length", "log p", "score"], rows));
}

/**
 * The text of an output: from the hypotheses if it is one of them; else its symbols, joined by spaces if the
 * hypotheses are.
 */
function textOf({ document: { symbols, hypotheses } }, candidates, one) {
  const tokens = pathTo(candidates, one.place).slice(1).map((place) => candidates[place].token);
  const ids = one.reason === "end" ? tokens.slice(0, -1) : tokens;
  const joined = (list, space) => list.map((id) => symbols[id] ?? "").join(space).trim();
  const known = hypotheses.find((other) => other.ids.join() === ids.join());
  const apart = hypotheses.some((other) => other.ids.length > 1 && joined(other.ids, " ") === other.text);
  return known?.text ?? joined(ids, apart ? " " : "");
}
