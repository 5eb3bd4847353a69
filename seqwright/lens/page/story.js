// The top of the page: the text, what became of it, and the way between, at one step of the output.

import { chosenMatrix, peak } from "./attention.js";
import { css, inkOn } from "./colours.js";
import { button, element, fill } from "./elements.js";
import { keepFocus } from "./panel.js";
import { plural } from "./text.js";

const DARKEST = 235; // of the 256 colours: words on it can still be read

/** The story of the current trace; `show(page)` brings it to the current step. */
export function createStory({ set }) {
  const row = (name) => element("p", { class: `tokens ${name}`, dir: "auto", "aria-label": name });
  const [source, output] = [row("source"), row("output")];
  const flow = element("nav", { class: "flow", "aria-label": "The way of the text" });
  const scrubber = createScrubber(set);
  const label = (name) => element("span", { class: "label" }, name);
  const node = element("section", { class: "story", "aria-label": "Story" },
    label("source"), source, label(""), flow, label("output"), output, label(""), scrubber.node);
  let built = null;

  async function show(page) {
    const { trace, state } = page;
    if (built !== trace) {
      built = trace;
      const pin = (place) => set({ view: "alignment", columns: String(place), unit: "pieces", sink: true });
      fill(source, chips(trace.document.source.pieces, trace.axes.source, pin));
      fill(output, chips(trace.document.output.pieces, trace.axes.steps, (t) => set({ t, playing: "" })));
    }
    keepFocus(flow, () => fill(flow, stages(page)));
    scrubber.show(page);
    [...output.children].forEach((chip, place) => {
      chip.classList.toggle("now", place === state.t);
      chip.classList.toggle("later", place > state.t);
    });
    await shade(page, source);
  }

  return { node, show };
}

function createScrubber(set) {
  const range = element("input", {
    type: "range", min: 0, step: 1, id: "step", "aria-label": "Step of the output",
    oninput: () => set({ t: Number(range.value), playing: "" }),
  });
  const [place, holder] = [element("output", { for: "step" }), element("span")];
  const node = element("div", { class: "scrubber" }, holder, range, place);

  function show({ trace, state }) {
    const [playing, last] = [state.playing === "steps", trace.length - 1];
    const start = { playing: "steps", ...(state.t === last ? { t: 0 } : {}) };
    const play = button(playing ? "❚❚" : "▶", () => set(playing ? { playing: "" } : start), {
      class: "play", "data-key": "play", "aria-label": playing ? "Pause" : "Play", title: "Space",
    });
    keepFocus(holder, () => fill(holder, play));
    range.max = last;
    range.value = state.t;
    const said = trace.axes.steps[state.t].label;
    range.setAttribute("aria-valuetext", `step ${state.t + 1} of ${trace.length}: ${said}`);
    place.textContent = `${state.t + 1} / ${trace.length}`;
  }

  return { node, show };
}

/** Pieces as they stand in the text: close together within a word, apart between words. */
function chips(pieces, items, pick) {
  return items.flatMap((item, place) => {
    const { word, special } = pieces[place];
    const begins = special === "end" || word === null || word !== pieces[place - 1]?.word;
    const title = `piece ${place}${special === "unknown" ? ", unknown to the model" : ""}`;
    const name = ["chip", begins && "begins", special].filter(Boolean).join(" ");
    const chip = button(item.label, () => pick(place), { class: name, tabindex: -1, title });
    return begins ? [" ", chip] : [chip];
  });
}

/** The source in the colours of the weights of this step. */
async function shade({ trace, state, colours }, source) {
  const weights = trace.kinds.includes("cross") ? await weightsOf(trace, state) : () => null;
  [...source.children].forEach((chip, place) => {
    const share = weights(place);
    const colour = share === null ? null : colours.ramp[Math.round(DARKEST * share)];
    chip.style.background = colour ? css(colour) : "";
    chip.style.color = colour ? inkOn(colour) : "";
  });
}

/** The weight of each piece at this step as a share of the largest; null for what is not shown. */
async function weightsOf(trace, state) {
  const heads = state.kind === "cross" ? {} : { layer: -1, head: "all" };
  const matrix = await chosenMatrix(trace, { ...state, ...heads, kind: "cross", unit: "pieces" });
  const start = Math.floor(state.t / matrix.blocks[0]) * matrix.columns;
  const row = matrix.values.subarray(start, start + matrix.columns);
  const high = peak(row);
  return (place) => {
    const column = matrix.columnOf[Math.floor(place / matrix.blocks[1])];
    return column < 0 ? null : row[column] / high;
  };
}

function stages({ trace, state, set }) {
  const { model, search, source, heads } = trace.document;
  const layers = (kind) => (model.layers[kind] ? `, ${plural(model.layers[kind], "layer")}` : "");
  const itself = { view: "alignment", kind: "enc", layer: -1, head: "all" };
  const encoder = trace.kinds.includes("enc") ? itself : { view: "number" };
  const list = [
    ["pieces", source.pieces.length, { view: "alignment", unit: "pieces" }],
    ["encoder", model.encoder + layers("enc"), encoder],
    ["attention", heads.length ? plural(heads.length, "head") : "none", { view: "heads" }],
    ["decoder", model.decoder + layers("dec"), { view: "next" }],
    ["search", search.beam > 1 ? `beam of ${search.beam}` : "greedy", { view: "beam" }],
  ];
  const here = (changes) => Object.entries(changes).every(([key, value]) => state[key] === value);
  return list.flatMap(([name, detail, changes], place) => [
    place > 0 && element("span", { "aria-hidden": true }, "→"),
    button([element("b", {}, name), ` ${detail}`], () => set(changes), {
      class: place > 0 && here(changes) && "here", "data-key": `stage ${name}`,
    }),
  ]);
}
