// A series as a picture: its past, the forecast with its interval, and the truth, over one axis of time.

import { svg, words } from "./elements.js";
import { shortTime } from "./forecast_trace.js";

const [LEFT, RIGHT, TOP, HEIGHT] = [66, 14, 12, 230]; // pixels
const APART = 128; // pixels between two times
const LEVELS = 5; // labels of values, about
const NICE = [1, 2, 2.5, 5, 10];
export const QUIET = { "font-size": 11, fill: "var(--quiet)" };

export const LINES = {
  past: ["Past", { stroke: "var(--ink)", "stroke-width": 1.4 }],
  truth: ["Truth", { stroke: "var(--ink)", "stroke-width": 1.4, "stroke-opacity": 0.55 }],
  linear: ["Linear part", { stroke: "var(--good)", "stroke-width": 1.4, "stroke-dasharray": "5 4" }],
  mean: ["Forecast", { stroke: "var(--data)", "stroke-width": 2.2 }],
};

/** The scales of a plot: x(step), counted from the first one of the past, y(value), and its edges. */
export function scalesOf(document, channel, width) {
  const { lookback, horizon } = document;
  const all = Object.values(channel).filter(Array.isArray).flat().filter((value) => value !== null);
  const low = all.reduce((least, value) => Math.min(least, value), Infinity);
  const high = all.reduce((most, value) => Math.max(most, value), -Infinity);
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  const [bottom, top] = [low - room, high + room];
  const across = (width - LEFT - RIGHT) / (lookback + horizon);
  const x = (step) => LEFT + across * step;
  const y = (value) => TOP + (HEIGHT * (top - value)) / (top - bottom);
  return {
    x, y, values: [bottom, top], left: LEFT, now: x(lookback), right: x(lookback + horizon), top: TOP,
    bottom: TOP + HEIGHT, step: (at) => (at - LEFT) / across,
  };
}

/** The elements of a plot: grid, interval and lines. */
export function plot(document, channel, scales) {
  const { lookback, times } = document;
  const { x, now, top, bottom } = scales;
  const lines = Object.keys(LINES).filter((name) => channel[name]).map((name) => svg("path", {
    class: `line ${name}`, fill: "none", "stroke-linejoin": "round", ...LINES[name][1],
    d: pathOf(channel[name], name === "past" ? 0 : lookback, scales),
  }));
  return [
    ...levels(scales), ...clock(times, scales),
    svg("path", {
      class: "interval", d: band(channel, lookback, scales), fill: "var(--data)", "fill-opacity": 0.16,
    }),
    svg("line", { x1: now, x2: now, y1: top, y2: bottom, stroke: "var(--quiet)", "stroke-dasharray": "2 3" }),
    ...lines,
  ];
}

/** A line through the middle of its steps, with gaps where a value is unknown. */
function pathOf(values, first, { x, y }) {
  let path = "";
  let open = false;
  values.forEach((value, place) => {
    const at = x(first + place + 0.5).toFixed(1);
    if (value !== null) path += `${open ? "L" : "M"}${at} ${y(value).toFixed(1)}`;
    open = value !== null;
  });
  return path;
}

function band({ low, high }, lookback, { x, y }) {
  const point = (value, place) => `${x(lookback + place + 0.5).toFixed(1)} ${y(value).toFixed(1)}`;
  return `M${[...high.map(point), ...low.map(point).reverse()].join("L")}Z`;
}

function levels({ values: [low, high], y, left, right }) {
  const rough = (high - low) / LEVELS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * NICE.find((one) => one * power >= rough);
  const more = step / power === 2.5 ? 1 : 0;
  const digits = Math.max(0, Math.min(8, more - Math.floor(Math.log10(step) + 1e-9)));
  const found = [];
  for (let number = Math.ceil(low / step); number * step <= high; number++) {
    const at = y(number * step);
    const label = (number * step).toFixed(digits).replace("-", "−");
    found.push(svg("line", { x1: left, x2: right, y1: at, y2: at, stroke: "var(--line)" }),
      words(label, left - 8, at, { "text-anchor": "end", ...QUIET }));
  }
  return found;
}

function clock(times, { x, left, right, bottom }) {
  const most = Math.max(2, Math.floor((right - left) / APART));
  const days = [...times.keys()].filter((place) => / 00:00(:00)?$/.test(times[place]));
  const places = days.length >= most / 2 ? days : [...times.keys()];
  const every = Math.ceil(places.length / most);
  return places.filter((_, number) => number % every === 0).flatMap((place) => {
    const at = x(place);
    const anchor = at > right - 110 ? "end" : "start";
    return [svg("line", { x1: at, x2: at, y1: bottom, y2: bottom + 5, stroke: "var(--faint)" }),
      words(shortTime(times[place]), at, bottom + 15, { "text-anchor": anchor, ...QUIET })];
  });
}
