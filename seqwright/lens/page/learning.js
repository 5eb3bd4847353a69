// The training: traces of one text at several checkpoints, with the loss curve.

import { chosenMatrix, peak } from "./attention.js";
import { diffed } from "./diff.js";
import { button, canvas, element, scroll, slider, svg, words } from "./elements.js";
import { heatmap } from "./heatmap.js";
import { short } from "./numbers.js";
import { listing } from "./table.js";

const [HEIGHT, MARGIN] = [130, 36]; // pixels of the curve
const COLUMNS = ["step", "loss", "output", "log p"];

export const learning = {
  name: "learning",
  title: "Training",
  lead: "The same text at several checkpoints of the training. The other views show the chosen checkpoint.",
  depends: [],
  unavailable: (page) => (checkpoints(page).length > 1 ? null
    : "This view needs traces of several checkpoints of one training; this page has only one."),
  controls,
  draw,
};

/**
 * The traces of one training by step: [{place, trace, step}, …]. Two traces without a loss curve are
 * treated as two models, and the list is empty.
 */
export function checkpoints({ traces, learning: records }) {
  if (traces.length < 3 && !records.length) return [];
  return traces.map((trace, place) => ({ place, trace, step: trace.document.model.step }))
    .filter((one) => one.step !== null)
    .sort((left, right) => left.step - right.step);
}

function controls(page) {
  const { state, set } = page;
  const found = checkpoints(page);
  const playing = state.playing === "learning";
  const range = {
    min: 0, max: found.length - 1, step: 1, value: found.findIndex((one) => one.place === state.a),
    format: (place) => (found[place] ? `step ${found[place].step.toLocaleString("en")}` : "–"),
  };
  const turn = () => set({ playing: playing ? "" : "learning" });
  return [
    button(playing ? "Pause" : "Play the training", turn, { class: "primary", "data-key": "play" }),
    slider("Checkpoint", range, (place) => set({ a: found[place].place, playing: "" })),
  ];
}

async function draw(page) {
  const found = checkpoints(page);
  const picture = curve(page, found);
  const row = ({ trace: { document: { output } }, step }) => (
    [step, lossAt(page.learning, step), output.text, output.log_prob]);
  const main = element("div", { class: "main" }, outputs(page, found));
  const columns = element("div", { class: "columns" }, main, await attention(page));
  const node = element("div", {}, scroll(picture), columns);
  return { node, picture, table: { columns: COLUMNS, rows: found.map(row) } };
}

/** The output at each checkpoint, compared with the last one. */
function outputs(page, found) {
  const last = found.at(-1).trace.document.output.text;
  const rows = found.map(({ place, trace, step }) => {
    const { text, log_prob: logProb } = trace.document.output;
    const go = button(step.toLocaleString("en"), () => page.set({ a: place, playing: "" }), {
      class: "link", "data-key": `checkpoint ${place}`,
    });
    const loss = lossAt(page.learning, step);
    const cells = [go, loss === null ? "" : short(loss, 2), diffed(last, text), short(logProb, 2)];
    return { cells, strong: place === page.state.a };
  });
  return listing("checkpoints", COLUMNS, rows);
}

async function attention({ trace, state, colours }) {
  const [kind] = trace.kinds;
  if (!kind) return null;
  const matrix = await chosenMatrix(trace, { ...state, kind, layer: -1, head: "all" });
  const scale = { colours, name: "ramp", low: 0, high: peak(matrix.values) };
  const picture = heatmap(matrix, scale, { width: 420, maxHeight: 320, row: null, label: "Weights" });
  const title = element("h3", {}, "Attention at this checkpoint");
  return element("aside", { class: "side wide" }, title, scroll(picture));
}

/** The loss of the record nearest to a step; null without records. */
function lossAt(records, step) {
  const far = (one) => Math.abs(one.step - step);
  return records.reduce((best, one) => (best && far(best) <= far(one) ? best : one), null)?.loss ?? null;
}

function curve({ learning: records, state, set }, found) {
  const width = Math.min(state.width, 1100);
  const steps = [...records, ...found].map((one) => one.step);
  const losses = records.map((one) => one.loss);
  const [[first, last], [low, high]] = [steps, losses].map((all) => [Math.min(...all), Math.max(...all)]);
  const x = (step) => MARGIN + ((width - 2 * MARGIN) * (step - first)) / (last - first || 1);
  const y = (loss) => 14 + ((HEIGHT - 34) * (high - loss)) / (high - low || 1);
  const picture = canvas("Loss curve", width, HEIGHT + 36, { "font-size": 12 });
  const ground = { x1: MARGIN, x2: width - MARGIN, y1: HEIGHT, y2: HEIGHT };
  picture.append(svg("line", { ...ground, stroke: "var(--line)" }));
  if (records.length > 1) {
    const points = records.map((one) => `${x(one.step).toFixed(1)} ${y(one.loss).toFixed(1)}`);
    const quiet = { "text-anchor": "end", fill: "var(--quiet)" };
    picture.append(
      svg("path", { d: `M${points.join(" L")}`, fill: "none", stroke: "var(--data)", "stroke-width": 2 }),
      ...[high, low].map((loss) => words(short(loss, 1), MARGIN - 8, y(loss), quiet)));
  }
  for (const { place, step } of found) {
    picture.append(...marker(x(step), step, place === state.a, () => set({ a: place, playing: "" })));
  }
  return picture;
}

function marker(x, step, now, go) {
  const colour = now ? "var(--accent)" : "var(--data)";
  const look = { fill: now ? colour : "var(--panel)", stroke: colour, "stroke-width": 2 };
  const place = { class: "token", cx: x, cy: HEIGHT, r: now ? 7 : 5, onclick: go };
  const dot = svg("circle", { ...place, ...look }, svg("title", {}, `step ${step}`));
  if (!now) return [dot];
  const line = svg("line", { x1: x, x2: x, y1: 8, y2: HEIGHT, stroke: colour, "stroke-width": 1.5 });
  const name = `step ${step.toLocaleString("en")}`;
  return [line, dot, words(name, x, HEIGHT + 18, { "text-anchor": "middle", fill: colour })];
}
