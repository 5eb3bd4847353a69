// All heads: coloured by role, with opacity by importance; each can be switched off.

import { noAttention, peak } from "./attention.js";
import { ROLES } from "./colours.js";
import { diffed } from "./diff.js";
import { bold, button, canvas, element, paragraph, scroll, sized, svg, words } from "./elements.js";
import { heatmap, imageOf, legend } from "./heatmap.js";
import { moved, short } from "./numbers.js";

const KIND_ORDER = ["enc", "dec", "cross"];
const THUMB = 52; // pixels of a head
const GRAIN = 64; // rows and columns of a thumbnail at most

export const heads = {
  name: "heads",
  title: "Heads",
  lead: "All heads of all layers. Border: role. Opacity: importance. The eye switches a head off.",
  depends: [],
  unavailable: ({ trace }) => (trace.document.heads.length ? null : noAttention(trace)),
  draw,
};

async function draw(page) {
  const { trace } = page;
  const shown = KIND_ORDER.filter((kind) => trace.searched || trace.kinds.includes(kind));
  const grids = await Promise.all(shown.map((kind) => grid(page, kind)));
  const walls = element("div", { class: "walls" }, grids.map((one) => one.node));
  const scope = trace.absent("heads", "roles and importance are computed from this text alone");
  const main = element("div", { class: "main" }, walls, roles(trace), paragraph("quiet", scope));
  const columns = element("div", { class: "columns" }, main, await large(page));
  const node = element("div", {}, without(page), columns);
  return { node, picture: poster(grids.filter((one) => one.cells.length)), table: tableFor(trace) };
}

function tableFor(trace) {
  const numbers = ["role", "offset", "rate", "confidence", "entropy", "importance"];
  const rows = trace.document.heads.map((one) => [
    `${one.kind} ${one.layer}.${one.head}`,
    ...numbers.map((name) => one[name]),
    trace.ablation(one.kind, one.layer, one.head)?.text,
  ]);
  return { columns: ["head", ...numbers, "output without it"], rows };
}

/** The heads of one kind, a row for each layer. */
async function grid(page, kind) {
  const layers = page.trace.document.attention.filter((one) => one.kind === kind);
  const { title } = page.trace.kind(kind);
  const cells = await Promise.all(layers.map((one) => Promise.all(
    Array.from({ length: one.heads }, (_, head) => thumbnail(page, kind, one.layer, head)))));
  const pruned = element("em", { class: "quiet", role: "gridcell" }, "all heads pruned");
  const lines = layers.map((one, row) => element("div", { class: "layer", role: "row" },
    element("span", { class: "number", role: "rowheader", title: `layer ${one.layer}` }, one.layer),
    one.heads ? cells[row].map((cell) => cell.node) : pruned.cloneNode(true)));
  const body = layers.length
    ? element("div", { class: "grid", role: "grid", "aria-label": title }, lines)
    : element("p", { class: "quiet" }, page.trace.absent(kind, "this model has none"));
  return { node: element("section", {}, element("h3", {}, title), body), title, cells, layers };
}

async function thumbnail({ trace, state, set, colours }, kind, layer, head) {
  const matrix = await trace.weights(kind, layer, head);
  const [row, lost] = [trace.head(kind, layer, head), trace.ablation(kind, layer, head)];
  const image = imageOf(matrix, colours, "ramp", 0, peak(matrix.values), GRAIN);
  const name = `${kind}.${layer}.${head}`;
  const off = state.off === name;
  const colour = ROLES[row?.role]?.[0] ?? "var(--line)";
  const brightness = 0.35 + 0.65 * (row?.importance ?? 1);
  const facts = [`layer ${layer}, head ${head}`, row?.role, lost?.changed && changes(trace)];
  const title = facts.filter(Boolean).join(", ");
  const style = `opacity:${off ? 0.12 : brightness}`;
  const picture = element("img", { src: image, alt: "", width: THUMB, height: THUMB, style });
  const show = button(picture, () => set({ kind, layer, head: String(head), k: -1 }), {
    class: "thumb", title, "data-key": name, style: `border-color:${colour}`, "aria-label": title,
    "aria-pressed": state.kind === kind && state.layer === layer && state.head === String(head),
  });
  const eye = lost && button(eyeIcon(off), () => set({ off: off ? "" : name }), {
    class: "eye", title: off ? "Switch on" : "Switch off", "data-key": `eye ${name}`,
    "aria-label": `Without layer ${layer}, head ${head}`, "aria-pressed": off,
  });
  const cell = lost?.changed ? "cell matters" : "cell";
  const node = element("div", { class: cell, role: "gridcell" }, show, eye);
  return { node, image, colour, brightness };
}

function eyeIcon(off) {
  const pen = { fill: "none", stroke: "currentColor", "stroke-width": 1.4 };
  return svg("svg", { viewBox: "0 0 16 16", width: 13, height: 13, "aria-hidden": true, ...pen },
    svg("path", { d: "M1.5 8 C4 3.5 12 3.5 14.5 8 C12 12.5 4 12.5 1.5 8 Z" }),
    svg("circle", { cx: 8, cy: 8, r: 2 }),
    off && svg("path", { d: "M2.5 13.5 L13.5 2.5" }));
}

/** What a head changes by being switched off. */
function changes({ given, searched }) {
  const what = given ? "next token" : searched ? "output" : "prediction";
  return `the ${what} changes without it`;
}

/** The output without the head that is switched off, compared with the original. */
function without({ trace, state, set }) {
  const { ablations, output } = trace.document;
  if (!ablations) return paragraph("quiet", trace.absent("ablations", "ablations were not computed"));
  const [kind, layer, head] = state.off.split(".");
  const lost = trace.ablation(kind, Number(layer), Number(head));
  if (!lost) return null;
  const title = `Without layer ${layer}, head ${head} of the ${trace.kind(kind).title.toLowerCase()}`;
  const same = trace.given ? "Same next token" : [`Same ${trace.names.output}: `, bold(lost.text)];
  const other = () => (trace.given ? "Another next token" : diffed(output.text, lost.text));
  const on = button("Switch on", () => set({ off: "" }), { "data-key": "on" });
  return element("div", { class: "card", id: "without", role: "status" },
    element("header", {}, element("h3", {}, title), on), paragraph("big", lost.changed ? other() : same),
    paragraph("quiet", output.score !== null && `Score: ${moved(output.score, lost.score)}. `,
      `Log p of the ${trace.given ? "text" : `original ${trace.names.output}`}: `,
      `${moved(output.log_prob, lost.output_log_prob)}.`));
}

function roles(trace) {
  const seen = new Set(trace.document.heads.map((one) => one.role));
  const named = Object.entries(ROLES).filter(([name]) => seen.has(name));
  const line = ([name, [colour, meaning]]) => (
    element("li", {}, element("i", { style: `background:${colour}` }), bold(name), ` ${meaning}`));
  const dots = trace.document.ablations?.some((one) => one.changed);
  return element("ul", { class: "roles" },
    named.map(line), dots && element("li", {}, element("i", { class: "dot" }), changes(trace)));
}

/** The selected head with its numbers. */
async function large({ trace, state, set, colours }) {
  const [entry, kind] = [trace.attention(state.kind, state.layer), trace.kind(state.kind)];
  if (!entry || state.head === "all") {
    return element("aside", { class: "side" }, paragraph("quiet", "Select a head to see its weights."));
  }
  const labels = (side, block) => trace.axis(kind[side], block).map((one) => one.label);
  const weights = await trace.weights(state.kind, state.layer, Number(state.head));
  const [rowLabels, columnLabels] = [labels("rows", entry.block[0]), labels("columns", entry.block[1])];
  const scale = { colours, name: "ramp", low: 0, high: peak(weights.values) };
  const row = trace.follows(state.kind) ? Math.floor(state.t / entry.block[0]) : null;
  const options = { width: 420, maxHeight: 360, row, label: "Selected head", image: weights };
  const picture = heatmap({ ...weights, rowLabels, columnLabels }, scale, options);
  const open = button("Open in a larger view", () => set({ view: "alignment" }), { class: "link" });
  return element("aside", { class: "side wide", "aria-label": "Selected head" },
    element("h3", {}, `${kind.title}, layer ${state.layer}, head ${state.head}`),
    scroll(picture), legend(scale), factsOf(trace.head(state.kind, state.layer, Number(state.head))), open);
}

function factsOf(row) {
  if (!row) return null;
  const format = (value) => (typeof value === "number" ? short(value, 2).replace(/\.00$/, "") : value);
  const offset = row.role === "positional" && "offset";
  const names = ["role", offset, "rate", "confidence", "entropy", "importance"];
  return element("dl", {}, names.filter((name) => name && row[name] !== null)
    .map((name) => [element("dt", {}, name), element("dd", {}, format(row[name]))]));
}

/** All heads as one picture, for saving. */
function poster(grids) {
  const step = THUMB + 8;
  const picture = canvas("Heads", 0, 0);
  let x = 10;
  for (const { title, cells, layers } of grids) {
    picture.append(words(title, x, 14, { "font-weight": 650 }));
    cells.forEach((line, row) => {
      const y = 30 + row * step;
      picture.append(words(layers[row].layer, x, y + THUMB / 2, { fill: "var(--quiet)" }));
      line.forEach(({ image, colour, brightness }, column) => {
        const box = { x: x + 22 + column * step, y, width: THUMB, height: THUMB };
        const sharp = { preserveAspectRatio: "none", style: "image-rendering:pixelated" };
        picture.append(
          svg("image", { href: image, ...box, ...sharp, opacity: brightness }),
          svg("rect", { ...box, fill: "none", stroke: colour, "stroke-width": 2 }));
      });
    });
    x += 42 + Math.max(2, ...cells.map((line) => line.length)) * step;
  }
  return sized(picture, x, 36 + Math.max(...grids.map((one) => one.cells.length)) * step);
}
