// Two panes: a source and its output, with alternatives, confidence, attention and corrections.

import { button, choice, element, fill } from "../lens/elements.js";
import { copyButton, field, latest, percent, shade, statusLine } from "../parts.js";

const BEST = 5; // outputs that are shown of a line
const MOST = 40; // lines that are translated
const NAMES = new Intl.DisplayNames(["en"], { type: "language" });

export function panel(model, server) {
  let beam = true;
  let lines = []; // {text, prediction, chosen, alignment}
  let current = 0;
  const status = statusLine();
  const work = latest(status);
  const source = field("Source", translate, { placeholder: "Type or paste a text", rows: 7 });
  const mirror = element("div", { class: "mirror", dir: "auto", "aria-hidden": true });
  const output = element("div", { class: "output", "aria-live": "polite", dir: "auto" });
  const others = element("div", { class: "others" });
  const tools = element("div", { class: "tools" });
  const search = element("div", { class: "tools" });
  source.addEventListener("scroll", () => { mirror.scrollTop = source.scrollTop; });
  draw();

  function translate() {
    const texts = source.value.split("\n").map((text) => text.trim()).filter(Boolean).slice(0, MOST);
    if (!texts.length) {
      work.stop();
      lines = [];
      status.say("");
      draw();
      return;
    }
    work.run(async (signal) => {
      const known = new Map(lines.filter((line) => line.beam === beam).map((line) => [line.text, line]));
      const missing = [...new Set(texts.filter((text) => !known.has(text)))];
      status.say(missing.length ? "…" : "");
      const began = performance.now();
      const options = beam ? { n_best: BEST } : { beam: 1 };
      const found = missing.length ? await server.predict(missing, options, signal) : [];
      const took = Math.round(performance.now() - began);
      found.forEach((prediction, place) => {
        known.set(missing[place], { text: missing[place], prediction, chosen: 0, beam });
      });
      lines = texts.map((text) => known.get(text));
      current = Math.min(current, lines.length - 1);
      if (missing.length) status.say(`${took} ms`);
      draw();
    });
  }

  function draw() {
    paint(null);
    const ways = [["beam", "Best", "Beam search, with alternatives"], ["greedy", "Fast", "Greedy search"]];
    fill(search, choice("Search", ways, beam ? "beam" : "greedy", (way) => {
      beam = way === "beam";
      draw();
      translate();
    }));
    const line = lines[current];
    fill(output, lines.length ? lines.map(drawLine) : element("span", { class: "quiet" }, "The output"));
    fill(tools, line ? [copyButton(() => lines.map(textOf).join("\n")),
      button("Correct", () => correct(line)),
      model.traced ? button("Look inside", () => server.look(line.text, textOf(line))) : null] : null);
    const outputs = line ? outputsOf(line) : [];
    fill(others, outputs.length > 1 ? [element("h3", {}, "Alternatives"), element("ul", { class: "choices" },
      outputs.map((each, place) => element("li", {}, element("button", {
        type: "button", dir: "auto", "aria-pressed": place === line.chosen,
        onclick: () => { line.chosen = place; draw(); },
      }, element("span", {}, each.output || "(nothing)"),
      element("span", { class: "number quiet", title: "Mean probability of a token" },
        percent(Math.exp(each.log_prob / Math.max(each.token_scores.length, 1))))))))] : null);
  }

  function drawLine(line, place) {
    const node = element("p", {
      class: lines.length > 1 && place === current ? "line here" : "line",
      onclick: () => { if (place !== current) { current = place; draw(); } },
    });
    for (const part of words(outputsOf(line)[line.chosen])) {
      if (part.chance === null) {
        node.append(part.text);
        continue;
      }
      const word = element("span", { class: "word", tabindex: 0, title: percent(part.chance) }, part.text);
      shade(word, 1 - part.chance);
      const enter = () => attend(line, part);
      for (const name of ["mouseenter", "focus"]) word.addEventListener(name, enter);
      for (const name of ["mouseleave", "blur"]) word.addEventListener(name, () => paint(null));
      node.append(word);
    }
    return node;
  }

  /** Marks the places of the source that a word of the best output attends to. */
  async function attend(line, { start, end }) {
    if (!model.traced || line.chosen !== 0 || !beam) return;
    attend.wanted = `${line.text} ${start}`;
    const own = attend.wanted;
    try {
      line.alignment ??= server.alignment(line.text);
      const found = await line.alignment;
      if (attend.wanted === own && found.text === outputsOf(line)[0].output) paint(line, found, start, end);
    } catch {
      line.alignment = null; // the marks are an extra: without them the page works
    }
  }

  function paint(line, found = null, start = 0, end = 0) {
    if (!line) attend.wanted = null;
    const text = source.value;
    const begin = line ? text.indexOf(line.text) : -1;
    if (begin < 0) {
      fill(mirror, text);
      return;
    }
    const rows = found.output.map((piece, row) => (piece.start < end && piece.end > start ? row : -1));
    const used = rows.filter((row) => row >= 0);
    const weights = found.source.map((_, column) => (
      used.reduce((sum, row) => sum + found.weights[row][column], 0) / Math.max(used.length, 1)));
    const most = Math.max(...weights, 1e-9);
    const parts = [text.slice(0, begin)];
    let at = begin;
    const letters = Array.from(line.text);
    found.source.forEach((piece, column) => {
      const spaces = /^\s*/.exec(letters.slice(piece.start, piece.end).join(""))[0].length;
      const from = begin + letters.slice(0, piece.start).join("").length + spaces;
      const to = begin + letters.slice(0, piece.end).join("").length;
      if (to <= at && to !== from) return;
      parts.push(text.slice(at, from), shade(element("mark", {}, text.slice(from, to)), weights[column] / most));
      at = to;
    });
    fill(mirror, ...parts, text.slice(at));
    mirror.scrollTop = source.scrollTop;
  }

  /** Lets the reader write what the output should have been. */
  function correct(line) {
    const before = textOf(line);
    const right = element("textarea", { "aria-label": "Correct output", dir: "auto", rows: 4 });
    right.value = before;
    const save = async () => {
      try {
        await server.correct(line.text, right.value.trim(), before);
        draw();
        status.say("Saved in corrections.jsonl of the run. Thank you.");
      } catch (error) {
        status.say(error.message, true);
      }
    };
    right.addEventListener("keydown", (event) => {
      if (event.key === "Escape") draw();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
    });
    fill(output, right);
    fill(others);
    fill(tools, button("Save", save, { class: "primary" }), button("Cancel", draw));
    right.focus();
  }

  return element("section", { class: "panes" },
    element("div", { class: "panel pane" },
      element("header", {}, element("h2", {}, language(model.source, "Source")), search),
      element("div", { class: "stack" }, mirror, source), status.node),
    element("div", { class: "panel pane" },
      element("header", {}, element("h2", {}, language(model.target, "Output")), tools), output, others));
}

function language(code, otherwise) {
  if (!/^[a-z]{2}$/.test(code)) return otherwise;
  return NAMES.of(code);
}

function outputsOf({ prediction }) {
  return [prediction, ...prediction.alternatives];
}

function textOf(line) {
  return outputsOf(line)[line.chosen].output;
}

/** The words of an output with their places and probabilities; the texts between them have none. */
function words({ output, tokens, token_scores: scores }) {
  const sums = new Float64Array(output.length + 1);
  let at = 0;
  tokens.forEach((token, place) => {
    const found = token.trim() ? output.indexOf(token.trim(), at) : -1;
    if (found < 0) return;
    sums[found] += scores[place];
    at = found + token.trim().length;
  });
  const parts = [];
  let place = 0;
  for (const text of output.split(/(\s+)/)) {
    const end = place + text.length;
    const log = sums.slice(place, end).reduce((sum, one) => sum + one, 0);
    const [from, to] = [place, end].map((offset) => Array.from(output.slice(0, offset)).length);
    if (text) parts.push({ text, start: from, end: to, chance: text.trim() ? Math.exp(log) : null });
    place = end;
  }
  return parts;
}
