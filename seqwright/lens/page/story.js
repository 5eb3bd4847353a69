// The top of the page: source, model, output and reference at one step of the output.

import { blocksOf, chosenMatrix, peak, stepHeads } from "./attention.js";
import { branchRow } from "./branch.js";
import { css, inkOn } from "./colours.js";
import { button, element, fill } from "./elements.js";
import { percent, probability, total } from "./numbers.js";
import { keepFocus } from "./panel.js";
import { grouped, nameText, plural, shorten } from "./text.js";

const FIELD = "\ufdd0"; // the mark between the turns of a text
const DARKEST = 235; // of the 256 colours: text on it is still readable

/** The summary of the current trace; `show(page)` moves it to the current step. */
export function createStory({ set }) {
  const row = (name) => element("p", { class: `tokens ${name}`, dir: "auto", "aria-label": name });
  const [source, output] = [row("source"), row("output")];
  const flow = element("nav", { class: "flow", "aria-label": "Stages of the model" });
  const [branch, scrubber] = [element("div", { class: "rows" }), createScrubber(set)];
  const node = element("section", { class: "story", "aria-label": "Summary" });
  const skipped = element("small", { class: "quiet skipped" });
  let [built, groups, now, heads, turn] = [null, null, 0, null, 0];

  function build(trace) {
    const { document, characters } = trace;
    const shown = { view: "alignment", unit: "pieces", sink: true };
    const pin = ([place]) => {
      const choice = heads ?? { kind: trace.kinds[0], layer: -1, head: "all" };
      const column = Math.floor(place / blocksOf(trace, choice)[1]);
      set({ ...shown, ...choice, columns: String(column) });
    };
    const go = (places) => set({ t: places[(places.indexOf(now) + 1) % places.length], playing: "" });
    groups = {
      source: document.image ? [] : grouped(document.source?.pieces ?? [], characters.source),
      output: outputGroups(trace),
    };
    fill(source, document.image ? thumbnail(document)
      : [chips(groups.source, document.source?.pieces ?? [], pin, turnStarts(document)),
        unread(document.source)]);
    skipped.textContent = document.source?.skipped > 0
      ? `… ${plural(document.source.skipped, "earlier token")}, not read` : "";
    fill(output, trace.given
      ? running(groups.output, characters.output, go) : chips(groups.output, document.output.pieces, go));
    output.classList.toggle("given", trace.given);
    const reference = document.reference && [label("reference"), referenceRow(document.reference)];
    const [read, made] = [[label(trace.names.source, skipped), source], [label(trace.names.output), output]];
    const way = [label(""), flow];
    fill(node, trace.given ? [made, way] : [read, way, made], branch, reference,
      trace.length > 1 && [label(""), scrubber.node]);
  }

  async function show(page) {
    const mine = ++turn;
    const { trace, state } = page;
    if (built !== trace) build(trace);
    [built, now, heads] = [trace, state.t, stepHeads(trace, state)];
    keepFocus(flow, () => fill(flow, stages(page)));
    const other = branchRow(page);
    keepFocus(branch, () => fill(branch, other && [label("branch"), other]));
    scrubber.show(page);
    groups.output.forEach(({ places }, at) => {
      output.children[at].classList.toggle("now", places.includes(now));
      output.children[at].classList.toggle("later", places[0] > now);
    });
    const here = trace.placeOf(now);
    groups.source.forEach(({ places }, at) => (
      source.children[at].classList.toggle("now", places.includes(here))));
    const weights = heads ? await weightsOf(trace, state, heads) : () => null;
    if (mine !== turn) return; // a later step is shown
    if (trace.given) shade((place) => weights(place + 1), page.colours, output, groups.output);
    else shade(weights, page.colours, source, groups.source);
  }

  return { node, show };
}

/** Where the turns after the first begin, if the text that the model reads has no marks between them. */
function turnStarts({ source, axes: { turns } }) {
  if (!turns || source.pieces.some(({ text }) => text === FIELD)) return [];
  return turns.pieces.slice(1).map(({ start }) => start);
}

/** The tokens of the output; a label is shown as it is written. */
function outputGroups({ decoded, given, document: { output }, characters }) {
  const found = grouped(output.pieces, characters.output);
  if (decoded || given) return found;
  return found.map((one) => ({ ...one, text: nameText(output.pieces[one.places[0]].text) || one.text }));
}

/** The image that the model reads, and the name of its file. */
function thumbnail({ image: { uri }, text }) {
  const name = text.startsWith("data:") ? "image" : shorten(text.split("/").at(-1), 60);
  return uri.startsWith("data:image/")
    && [
      element("img", { class: "thumbnail", src: uri, alt: name }),
      element("span", { class: "quiet" }, name),
    ];
}

/** How many tokens of a long source are not read. */
function unread(source) {
  return source?.unread > 0 && [" ", element("span", { class: "chip begins end" },
    `… ${plural(source.unread, "more token")}, not read`)];
}

function label(name, ...notes) {
  return element("span", { class: "label" }, name, notes);
}

function createScrubber(set) {
  const range = element("input", {
    type: "range", min: 0, step: 1, id: "step", "aria-label": "Step",
    oninput: () => set({ t: Number(range.value), playing: "" }),
  });
  const [place, holder] = [element("output", { for: "step" }), element("span")];
  const node = element("div", { class: "scrubber" }, holder, range, place);

  function show({ trace, state }) {
    const [playing, last] = [state.playing === "steps", trace.length - 1];
    const turn = () => set(playing ? { playing: "" } : started(trace, state));
    const play = button(playing ? "❚❚" : "▶", turn, {
      class: "play", "data-key": "play", "aria-label": playing ? "Pause" : "Play", title: "Space",
    });
    keepFocus(holder, () => fill(holder, play));
    range.max = last;
    range.value = state.t;
    const token = trace.axes.steps[state.t].label;
    range.setAttribute("aria-valuetext", `step ${state.t + 1} of ${trace.length}: ${token}`);
    place.textContent = `${state.t + 1} / ${trace.length}`;
  }

  return { node, show };
}

/** Playing starts at the current step, or at the first one after the last. */
export function started(trace, { t }) {
  return { playing: "steps", t: t + 1 < trace.length ? t : 0 };
}

/**
 * The tokens of a text as spans: close together within a word, apart between words. They form one line of
 * text, so that letters join across them.
 */
function chips(groups, pieces, pick, marked = []) {
  return groups.flatMap((group) => {
    const { places } = group;
    const name = places.length > 1 ? `tokens ${places[0]} to ${places.at(-1)}` : `token ${places[0]}`;
    const unknown = places.some((place) => pieces[place].special === "unknown");
    const title = `${name}${unknown ? ", not in the vocabulary" : ""}`;
    const mark = marked.includes(group.start) && group.end > group.start && " │";
    return [mark, ...chip(group, pieces, { title, role: "button", onclick: () => pick(places) })];
  });
}

/** The tokens of a running text as it is written, with its spaces and line ends. */
function running(groups, characters, pick) {
  return groups.map(({ places, start, end, special, text }) => element("span", {
    class: `chip begins ${special ?? ""}`, title: `token ${places[0]}`, role: "button",
    onclick: () => pick(places),
  }, special === "next" ? text : characters.slice(start, end).join("")));
}

/** A group of tokens, preceded by a space where a word begins. */
function chip({ places, text, joined, leftward }, pieces, attributes, ...more) {
  const apart = begins(pieces, places[0]);
  const marks = places.map((place) => pieces[place].special);
  const names = ["chip", apart && "begins", joined && "joined", leftward && "leftward", ...marks, ...more];
  const made = element("span", { class: names.filter(Boolean).join(" "), ...attributes }, text);
  return apart ? [" ", made] : [made];
}

/** Whether a token is separate from the one before. */
function begins(pieces, place) {
  const { word, special } = pieces[place];
  return special === "end" || word === null || word !== pieces[place - 1]?.word;
}

/** The reference, with tokens marked that are not the most probable. */
function referenceRow({ text, pieces, token_scores: scores, ranks }) {
  const fact = (place) => `rank ${ranks[place]}, probability ${percent(probability(scores[place]))}`;
  const one = (group) => {
    const missed = group.places.some((place) => ranks[place] > 1);
    return chip(group, pieces, { title: group.places.map(fact).join("; ") }, "begins", missed && "missed");
  };
  const row = { class: "tokens reference", dir: "auto", "aria-label": "reference" };
  return element("p", row, grouped(pieces, Array.from(text)).flatMap(one));
}

/** Colours the source by the weights of this step; tokens that share a letter have one colour. */
function shade(weights, colours, source, groups) {
  groups.forEach(({ places }, at) => {
    const shares = places.map(weights).filter((share) => share !== null);
    const colour = shares.length ? colours.ramp[Math.round(DARKEST * Math.max(...shares))] : null;
    const { style } = source.children[at];
    style.background = colour ? css(colour) : "";
    style.color = colour ? inkOn(colour) : "";
  });
}

/** The weight of each token at this step as a share of the largest; null for hidden and for later tokens. */
async function weightsOf(trace, state, heads) {
  const matrix = await chosenMatrix(trace, { ...state, ...heads, unit: "pieces" });
  const start = Math.floor(state.t / matrix.blocks[0]) * matrix.columns;
  const row = matrix.values.subarray(start, start + matrix.columns);
  const high = peak(row);
  return (place) => {
    const column = matrix.columnOf[Math.floor(place / matrix.blocks[1])] ?? -1;
    return column < 0 || (trace.given && place > state.t) ? null : row[column] / high;
  };
}

/** The probability of all predictions. */
function likely({ document: { output } }) {
  return percent(probability(output.log_prob));
}

/** The view of an output that no search found. */
function answered({ decoded, document: { image, model } }) {
  if (image) return model.decoder ? "regions" : "saliency";
  return decoded ? "next" : "decision";
}

/** The number of heads; those of an attention that is shown in two parts count once. */
function headCount({ heads, attention }) {
  const known = attention.filter(({ kind, layer }) => (
    heads.some((one) => one.kind === kind && one.layer === layer)));
  return total([...new Map(known.map((one) => [one.name, one.heads])).values()]);
}

function stages({ trace, state, set }) {
  const { model, search, source, output, heads, image } = trace.document;
  const read = (source ?? output).pieces.filter(({ special }) => special !== "next");
  const layers = (kind) => (model.layers[kind] ? `, ${plural(model.layers[kind], "layer")}` : "");
  const itself = { view: "alignment", kind: "enc", layer: -1, head: "all" };
  const encoder = trace.kinds.includes("enc") ? itself : { view: "number" };
  const list = [
    [image ? "cells" : "tokens", read.length, { view: "alignment", unit: "pieces" }],
    model.encoder && ["encoder", model.encoder + layers("enc"), encoder],
    heads.length || !trace.kinds.length
      ? ["attention", heads.length ? plural(headCount(trace.document), "head") : "none", { view: "heads" }]
      : ["attention", "pooling", { view: "alignment" }],
    model.decoder && ["decoder", model.decoder + layers("dec"), { view: "next" }],
    search && ["search", search.beam > 1 ? `beam size ${search.beam}` : "greedy", { view: "beam" }],
    !search && !trace.given && [trace.names.output, likely(trace), { view: answered(trace) }],
  ];
  const here = (changes) => Object.entries(changes).every(([key, value]) => state[key] === value);
  return list.filter(Boolean).flatMap(([name, detail, changes], place) => [
    place > 0 && element("span", { "aria-hidden": true }, "→"),
    button([element("b", {}, name), ` ${detail}`], () => set(changes), {
      class: place > 0 && here(changes) && "here", "data-key": `stage ${name}`,
    }),
  ]);
}
