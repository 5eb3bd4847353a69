// Numbers, and what follows them: the mean, and the interval that holds 80 % of the outcomes.

import { button, element, fill, svg, words } from "../lens/elements.js";
import { field, latest, statusLine } from "../parts.js";
import { readSeries } from "../series.js";

const [HEIGHT, LEFT] = [240, 56]; // of a chart
const SHOWN = 3; // steps of the past that are drawn for one of the forecast

export function panel(model, server) {
  const status = statusLine();
  const work = latest(status);
  const numbers = field("Numbers", predict, {
    placeholder: "The numbers so far, oldest first, or the rows of a table with their times: 2024-05-31,17",
    rows: 4,
  });
  const steps = element("input", {
    type: "number", min: 1, "aria-label": "Horizon", placeholder: model.horizon ?? "", onchange: predict,
  });
  const tools = element("div", { class: "tools" });
  const result = element("div", { class: "result", "aria-live": "polite" });

  function predict() {
    let given = null;
    try {
      given = readSeries(numbers.value, model);
    } catch (error) {
      work.stop();
      status.say(error.message, true);
      return;
    }
    if (given === null) {
      work.stop();
      fill(result);
      fill(tools);
      status.say("");
      return;
    }
    work.run(async (signal) => {
      const began = performance.now();
      const options = steps.value ? { horizon: Number(steps.value) } : {};
      const [found] = await server.predict([given], options, signal);
      const duration = `${Math.round(performance.now() - began)} ms`;
      status.say(given.start ? `${found.times[0]} to ${found.times.at(-1)} · ${duration}` : duration);
      const names = Object.keys(found.output);
      const key = (side) => Object.keys(found).find((each) => each.startsWith(`${side}_`));
      const bound = (side, name) => found[key(side)]?.[name];
      fill(tools, model.traced ? button("Look inside", () => server.look(given)) : null);
      fill(result, legend(key("low")?.replace("low_", "")),
        found.remark ? element("p", { class: "quiet remark" }, found.remark) : null,
        element("div", { class: "charts" }, names.map((name, column) => {
          const past = given.target.map((row) => (Array.isArray(row) ? row[column] : row));
          const width = names.length > 1 ? 600 : 1100;
          return chart(name, width, past, found.output[name], bound("low", name), bound("high", name));
        })));
    });
  }

  return element("section", { class: "panel" },
    element("header", {}, element("h2", {}, "The past"), tools), element("div", { class: "stack numbers" }, numbers),
    element("div", { class: "controls" }, element("label", {}, "Horizon ", steps)), status.node, result);
}

function legend(percent) {
  const entry = (kind, text) => element("li", {}, element("i", { class: kind }), text);
  return element("ul", { class: "roles legend" }, entry("past", "past"), entry("mean", "forecast"),
    percent ? entry("interval", `${percent} % interval`) : null);
}

function chart(name, width, whole, mean, low = mean, high = mean) {
  const past = whole.slice(-SHOWN * mean.length);
  const all = [...past.filter((value) => value !== null), ...low, ...high];
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const x = (place) => LEFT + (place / Math.max(past.length + mean.length - 1, 1)) * (width - LEFT - 8);
  const y = (value) => 12 + (1 - (value - least) / (most - least || 1)) * (HEIGHT - 30);
  const line = (values, first) => values.map((value, place) => (
    value === null ? "" : `${x(first + place)},${y(value)}`
  )).join(" "); // a missing value is passed over
  const begin = past.length;
  const joined = past.length && past.at(-1) !== null ? [past.at(-1), ...mean] : mean;
  const area = `${line(low, begin)} ${line(high, begin).split(" ").reverse().join(" ")}`;
  return element("figure", {}, element("h3", {}, name), svg("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`, width: "100%", role: "img", "font-size": 12,
    "aria-label": `${name}: from ${mean[0]} to ${mean.at(-1)}`,
  },
  [least, (least + most) / 2, most].map((value) => [
    svg("line", { x1: LEFT, x2: width, y1: y(value), y2: y(value), stroke: "var(--line)" }),
    words(short(value), LEFT - 8, y(value), { "text-anchor": "end", fill: "var(--quiet)" }),
  ]),
  svg("polygon", { points: area, fill: "var(--accent)", opacity: 0.16 }),
  svg("polyline", { points: line(past, 0), fill: "none", stroke: "var(--data)", "stroke-width": 2 }),
  svg("polyline", {
    points: line(joined, begin - (joined.length - mean.length)), fill: "none", stroke: "var(--accent)",
    "stroke-width": 2.5,
  })));
}

function short(value) {
  return Number(value.toPrecision(3)).toLocaleString("en");
}
