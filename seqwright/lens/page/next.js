// What could have been said at this step, and what temperature, top-k and top-p make of it.

import { bold, canvas, element, paragraph, scroll, slider, svg, words } from "./elements.js";
import { percent, reshape, short } from "./numbers.js";
import { shorten } from "./text.js";

const SHOWN = 16;
const [LEFT, RIGHT, ROW] = [130, 74, 28]; // pixels: the names, the numbers, a bar

export const next = {
  name: "next",
  title: "Next piece",
  lead: "At each step the model gives every piece a probability. The sliders change what a draw could be.",
  depends: [],
  controls,
  draw,
};

function controls({ state, set }) {
  const all = (most) => (value) => (value === most ? "all" : String(value));
  const digits = (value) => value.toFixed(2);
  const temperature = { min: 0.1, max: 3, step: 0.05, value: state.temperature, say: digits };
  const topK = { min: 0, max: 50, step: 1, value: state.topk, say: all(0) };
  const topP = { min: 0.05, max: 1, step: 0.01, value: state.topp, say: all(1) };
  return [
    slider("Temperature", temperature, (value) => set({ temperature: value })),
    slider("Top-k", topK, (value) => set({ topk: value })),
    slider("Top-p", topP, (value) => set({ topp: value })),
  ];
}

async function draw({ trace, state }) {
  const step = trace.document.steps[state.t];
  const stored = await trace.logits(state.t);
  const shaped = reshape(stored, { temperature: state.temperature, topK: state.topk, topP: state.topp });
  const plain = stored.logits.map((logit) => Math.exp(logit - step.total));
  const fate = (id, place) => (id === step.id ? "said" : place < shaped.kept ? "" : "cut off");
  const rows = stored.ids.map((id, place) => (
    [trace.symbol(id), plain[place], shaped.shares[place], fate(id, place)]));
  const picture = bars(rows.slice(0, SHOWN), Math.min(state.width, 860));
  const facts = paragraph("facts",
    "The model said ", bold(trace.symbol(step.id), "now"), `, number ${step.rank} of its list with `,
    `probability ${percent(Math.exp(step.log_prob))}. It was as uncertain as an even choice among `,
    `${short(Math.exp(step.entropy), 1)} (entropy ${short(step.entropy, 2)} nats). `,
    "The thin marks are the model's own probabilities. ", restInWords(shaped.rest, state.temperature));
  const table = { columns: ["piece", "probability", "after the sliders", ""], rows };
  return { node: element("div", {}, facts, scroll(picture)), picture, table };
}

/** What is not listed; at another temperature its mass is known up to a bound (docs/trace.md). */
function restInWords(rest, temperature) {
  if (rest < 0.0005) return null;
  const bound = temperature < 1 ? "at most " : temperature > 1 ? "at least " : "";
  return `All that is not listed has ${bound}${percent(rest)} together.`;
}

function bars(rows, width) {
  const most = Math.max(...rows.flatMap(([, plain, shaped]) => [plain, shaped]));
  const long = (share) => ((width - LEFT - RIGHT) * share) / most;
  const picture = canvas("Probabilities of the next piece", width, rows.length * ROW + 4);
  rows.forEach(([label, plain, shaped, note], place) => {
    const [y, said] = [place * ROW + 2, note === "said"];
    const [x, end] = [LEFT + long(plain), LEFT + long(Math.max(shaped, plain)) + 8];
    const fill = said ? "var(--accent)" : shaped ? "var(--ink)" : "var(--quiet)";
    const name = { "text-anchor": "end", "font-size": 14, "font-weight": said ? 650 : 400, fill };
    const bar = { x: LEFT, y: y + 5, width: long(shaped), height: ROW - 10, rx: 3 };
    const mark = { x1: x, x2: x, y1: y + 3, y2: y + ROW - 3, stroke: "var(--ink)", "stroke-width": 1.5 };
    const quiet = { fill: "var(--quiet)", "font-size": 12 };
    picture.append(
      words(shorten(label, 14), LEFT - 12, y + ROW / 2, name),
      svg("rect", { ...bar, fill: said ? "var(--accent)" : "var(--data)" }),
      svg("line", { ...mark, "stroke-opacity": 0.55 }),
      words(shaped ? percent(shaped) : "cut off", end, y + ROW / 2, quiet),
    );
  });
  return picture;
}
