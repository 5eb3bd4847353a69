// The forecast, and under it the weights of every part of the past: one row for each part of the forecast.

import { css } from "./colours.js";
import { bold, canvas, element, fill, menu, paragraph, scroll, svg, words } from "./elements.js";
import { LINES, plot, QUIET, scalesOf } from "./forecast_plot.js";
import { shortTime } from "./forecast_trace.js";
import { largest, percent, short } from "./numbers.js";

const BELOW = 40; // pixels between the plot and the weights
const [LOWEST, HIGHEST, TALL] = [3, 22, 300]; // pixels of a row, and of all rows
const ALL = "mean of all";
const THIN = 8; // pixels of a row that is outlined at a distance
const STRONGEST = 0.42; // opacity of the largest weight over the past
const SIGNS = "orange raises it, blue lowers it. Colours follow the root of the size.";
const LEADS = {
  forecast: "Which parts of the past each part of the forecast attends to. Point at a step to see them.",
  output: "Which patches the output layer takes each part of the forecast from, before any attention.",
  past: "Which patches each patch of the past attends to.",
  map: `How the forecast moves with each value of the past: ${SIGNS}`,
  linear: `The weights of the fixed linear part: ${SIGNS}`,
};

export const forecast = {
  name: "forecast",
  title: ({ document: { series, times, lookback } }) => (
    `${series ? `${series}: forecast` : "Forecast"} from ${shortTime(times[lookback])}`),
  lead: () => "",
  depends: ["a", "kind", "layer", "head", "channel"],
  controls,
  draw,
};

function controls({ trace, state, set }) {
  const { kinds, channels } = trace.document;
  const names = channels.map(({ name }, place) => [place, name]);
  const titles = trace.kinds.map((kind) => [kind, kinds[kind].title]);
  const layers = trace.layers(state.kind).map(({ layer }) => [layer, String(layer)]);
  const most = Math.max(...trace.chosen({ ...state, head: "all" }).map(({ entry }) => entry.heads));
  const heads = [...Array(most).keys()].map((head) => [String(head), String(head)]);
  const turn = (kind) => set({ kind, layer: -1, head: "all", q: 0, k: -1 });
  return [
    channels.length > 1 && menu("Column", names, state.channel, (channel) => set({ channel })),
    titles.length > 1 && menu("Weights", titles, state.kind, turn),
    layers.length > 1 && menu("Layer", [[-1, ALL], ...layers], state.layer, (layer) => set({ layer })),
    heads.length > 1 && menu("Head", [["all", ALL], ...heads], state.head, (head) => set({ head })),
  ];
}

async function draw({ trace, state, set, colours }) {
  const { document } = trace;
  const matrix = await trace.matrix(state);
  const channel = document.channels[state.channel];
  const scales = scalesOf(document, channel, state.width);
  const frame = framed(matrix, scales);
  const picture = canvas(`Forecast of ${channel.name}`, state.width, frame.bottom + 8, {
    class: "forecast", tabindex: 0, role: "application", "data-key": "forecast",
  });
  const [shade, mark] = [svg("g", { class: "shade" }), svg("g", { class: "mark" })];
  const drawn = [...plot(document, channel, scales), ...weightImage(matrix, scales, frame, colours)];
  picture.append(shade, ...drawn, mark);
  const readout = paragraph("readout");
  const show = (place) => {
    fill(shade, shading(matrix, scales, place));
    fill(mark, marking(matrix, scales, frame, place));
    fill(readout, sentence(trace, matrix, place));
  };
  const pinned = state.k >= 0 ? { column: state.k } : { row: state.q };
  show(pinned);
  listen(picture, matrix, scales, frame, { show, pinned, set });
  const node = element("div", {}, paragraph("facts", LEADS[state.kind] ?? ""), legend(document, channel),
    scroll(picture), readout, reasons(document));
  return { node, picture, table: tableOf(trace, matrix, state.q), whole: () => wholeTable(trace, matrix) };
}

/** The place of the rows of weights. */
function framed({ rows }, { bottom }) {
  const down = Math.max(LOWEST, Math.min(HIGHEST, TALL / rows.length));
  return { top: bottom + BELOW, down, bottom: bottom + BELOW + down * rows.length };
}

function nameOf({ signed }) {
  return signed ? "derivative" : "weight";
}

/** All weights as one image, and at the right (or inside) the part that each row belongs to. */
function weightImage(matrix, scales, { top, down, bottom }, colours) {
  const [first, last] = [matrix.columns[0][0], matrix.columns.at(-1)[1]];
  const box = { x: scales.x(first), y: top, width: scales.x(last) - scales.x(first), height: bottom - top };
  const part = (span, row) => {
    const [left, right] = span.map((step) => scales.x(matrix.own + step));
    const box = { x: left, y: top + row * down, width: Math.max(1, right - left), height: down };
    return svg("rect", { ...box, fill: "var(--faint)", "fill-opacity": 0.7 });
  };
  return [
    words(nameOf(matrix), scales.left - 8, top + 6, { "text-anchor": "end", ...QUIET }),
    svg("image", {
      href: painted(matrix, colours), ...box, preserveAspectRatio: "none", style: "image-rendering:pixelated",
    }),
    svg("rect", { ...box, fill: "none", stroke: "var(--line)" }),
    ...(matrix.below === "forecast" ? matrix.rows.map(part) : []),
  ];
}

/** One pixel for half a step of the past, so that borders between overlapping patches are exact. */
function painted({ values, rows, cells, signed }, colours) {
  const [first, last] = [cells[0][0], cells.at(-1)[1]];
  const sheet = window.document.createElement("canvas");
  [sheet.width, sheet.height] = [2 * (last - first), rows.length];
  const brush = sheet.getContext("2d");
  const reach = most(values);
  rows.forEach((_, row) => cells.forEach(([start, end], column) => {
    const share = strength(values[row * cells.length + column] / reach, signed);
    brush.fillStyle = css(signed ? colours.difference[Math.round(127.5 + 127.5 * share)]
      : colours.ramp[Math.round(255 * share)]);
    brush.fillRect(2 * (start - first), row, 2 * (end - start), 1);
  }));
  return sheet.toDataURL();
}

/** How strongly a share of the largest value is drawn: derivatives by their root, as one is often far off. */
function strength(share, signed) {
  return signed ? Math.sign(share) * Math.sqrt(Math.abs(share)) : share;
}

function most(values) {
  return values.reduce((best, value) => Math.max(best, Math.abs(value)), 0) || 1;
}

/** The weights of a row over the past, or of a column over the parts that they belong to. */
function shading(matrix, { x, top, bottom }, { row, column }) {
  const { values, cells, rows, own, signed } = matrix;
  const spans = row !== undefined ? cells : rows.map(([start, end]) => [own + start, own + end]);
  const weight = (place) => (row !== undefined ? values[row * cells.length + place]
    : values[place * cells.length + column]);
  const reach = most(spans.map((_, place) => weight(place)));
  return spans.map(([start, end], place) => svg("rect", {
    x: x(start), y: top, width: x(end) - x(start) + 0.4, height: bottom - top,
    fill: !signed ? "var(--data)" : weight(place) > 0 ? "var(--raises)" : "var(--lowers)",
    "fill-opacity": (STRONGEST * Math.abs(strength(weight(place) / reach, signed))).toFixed(3),
  }));
}

/** Outlines of the chosen row or column: in the weights, and in the plot. */
function marking(matrix, { x, top, bottom }, frame, { row, column }) {
  const outline = (start, end, y, height) => svg("rect", {
    x: x(start), y, width: Math.max(1.5, x(end) - x(start)), height, fill: "none", rx: 2,
    stroke: "var(--accent)", "stroke-width": 1.6,
  });
  const around = frame.down < THIN ? 2 : 0; // so that a thin row stays visible
  if (row === undefined) {
    const [cell, span] = [matrix.cells[column], matrix.columns[column]];
    return [outline(...span, top, bottom - top), outline(...cell, frame.top, frame.bottom - frame.top)];
  }
  const [start, end] = matrix.rows[row].map((step) => matrix.own + step);
  const [first, last] = [matrix.cells[0][0], matrix.cells.at(-1)[1]];
  const y = frame.top + row * frame.down;
  const band = svg("rect", {
    x: x(start), y: top, width: Math.max(1.5, x(end) - x(start)), height: bottom - top,
    fill: "var(--accent)", "fill-opacity": 0.1, stroke: "var(--accent)", "stroke-width": 1.2,
  });
  const lane = [y - around, frame.down + 2 * around];
  return [band, outline(first, last, ...lane), outline(start, end, ...lane)];
}

/** What the pointer is at: a row, by its weights or its steps; a column, by a step of the past. */
function placeAt(matrix, scales, frame, x, y) {
  const step = scales.step(x);
  const within = ([start, end], at) => start <= at && at < end;
  if (y >= frame.top) {
    const row = Math.floor((y - frame.top) / frame.down);
    return row < matrix.rows.length ? { row } : null;
  }
  const row = matrix.rows.findIndex((span) => within(span, step - matrix.own));
  if (matrix.below === "forecast" && row >= 0) return { row };
  const column = matrix.cells.findIndex((cell) => within(cell, step));
  if (column >= 0) return matrix.below === "past" ? { row: column } : { column };
  return null;
}

function listen(picture, matrix, scales, frame, { show, pinned, set }) {
  const at = (event) => {
    const box = picture.getBoundingClientRect();
    const scale = picture.viewBox.baseVal.width / box.width;
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return placeAt(matrix, scales, frame, x * scale, y * scale);
  };
  picture.addEventListener("pointermove", (event) => show(at(event) ?? pinned));
  picture.addEventListener("pointerleave", () => show(pinned));
  picture.addEventListener("click", (event) => {
    const place = at(event);
    if (place) set({ q: place.row ?? 0, k: place.column ?? -1 });
  });
}

/** The chosen row or column in words. */
function sentence(trace, matrix, { row, column }) {
  const { values, rows, columns, cells, below, signed } = matrix;
  const number = (value) => (signed ? short(value, 3) : percent(value));
  const called = (span, side) => {
    const [first, last] = trace.times(span, side);
    return first === last ? first : `${first} – ${last}`;
  };
  const list = row !== undefined ? [...values.subarray(row * cells.length, (row + 1) * cells.length)]
    : rows.map((_, place) => values[place * cells.length + column]);
  const top = largest(list.map(Math.abs));
  const other = row !== undefined ? called(columns[top], "past") : called(rows[top], below);
  const own = row !== undefined ? called(rows[row], below) : called(columns[column], "past");
  if (row === undefined) {
    return [bold(own, "now"), `: matters most for `, bold(other), `, ${number(list[top])}.`];
  }
  const sum = list.reduce((all, one) => all + one, 0);
  const rest = signed ? `sum ${number(sum)}` : `equal weights would be ${percent(1 / list.length)}`;
  const known = !signed && sum < 0.995 ? `; ${percent(1 - sum)} on what is known in advance` : "";
  return [bold(own, "now"), ": most on ", bold(other), `, ${number(list[top])}; ${rest}${known}.`];
}

function legend(document, channel) {
  const swatch = (attributes) => {
    const line = canvas("", 26, 12, { "aria-hidden": true });
    line.append(svg("line", { x1: 0, x2: 26, y1: 6, y2: 6, ...attributes }));
    return line;
  };
  const items = Object.entries(LINES).filter(([name]) => channel[name])
    .map(([, [title, look]]) => element("span", {}, swatch(look), title));
  const wide = { stroke: "var(--data)", "stroke-opacity": 0.16, "stroke-width": 12 };
  items.push(element("span", {}, swatch(wide), `${document.level} % interval`));
  return element("div", { class: "legend" }, items);
}

function reasons({ absent }) {
  const shown = ["forecast", "channels"].filter((key) => absent[key]).map((key) => absent[key]);
  const text = shown.map((one) => `${one.charAt(0).toUpperCase()}${one.slice(1)}.`).join(" ");
  return text && paragraph("quiet", text);
}

/** The weights of one row, a line for each part of the past. */
function tableOf(trace, matrix, row) {
  const { values, columns } = matrix;
  const line = (span, place) => [...trace.times(span, "past"), values[row * columns.length + place]];
  return { columns: ["from", "to", nameOf(matrix)], rows: columns.map(line) };
}

function wholeTable(trace, { values, rows, columns, below }) {
  const line = (span, row) => [
    ...trace.times(span, below), ...values.subarray(row * columns.length, (row + 1) * columns.length)];
  const begins = columns.map((span) => trace.times(span, "past")[0]);
  return { columns: ["from", "to", ...begins], rows: rows.map(line) };
}
