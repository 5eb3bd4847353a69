// A text shaded by surprise: −log p of each token after the tokens before it.

import { css, inkOn } from "./colours.js";
import { bold, canvas, element, fill, paragraph, scroll, svg } from "./elements.js";
import { percent, probability, short, total } from "./numbers.js";
import { grouped, plural } from "./text.js";

const HEIGHT = 110; // pixels of the bars
const STRONGEST = 8; // nats at which a token is darkest
const DARKEST = 235; // of the 256 colours: text on it is still readable
const BITS = Math.LN2;

export const surprise = {
  name: "surprise",
  title: "Surprise",
  lead: "The text shaded by surprise, −log p of each token after those before it.",
  depends: [],
  applies: (trace) => trace.given,
  draw,
};

function draw(page) {
  const { trace } = page;
  const rows = tokensOf(trace);
  const readout = element("p", { class: "readout", role: "status" });
  const show = (t) => fill(readout, sentence(trace, rows, t));
  show(Math.min(page.state.t, rows.length));
  const picture = bars(page, rows, show);
  const node = element("div", {}, summary(trace, rows), shaded(page, rows, show), readout, scroll(picture));
  const table = {
    columns: ["position", "token", "probability", "nats", "bits", "rank", "most probable", "its probability"],
    rows: rows.map((one, t) => (
      [t + 1, one.label, one.share, one.nats, one.nats / BITS, one.rank, one.best, one.bestShare])),
  };
  return { node, picture, table };
}

/** The tokens of the text with their surprise, without the one that would follow. */
function tokensOf(trace) {
  const { steps, output } = trace.document;
  return output.pieces.filter(({ special }) => special !== "next").map((piece, t) => {
    const [best, logProb] = steps[t].top[0];
    return {
      label: trace.axes.steps[t].label,
      share: probability(steps[t].log_prob),
      nats: -(steps[t].log_prob ?? -Infinity),
      rank: steps[t].rank,
      best: trace.symbol(best),
      bestShare: probability(logProb),
    };
  });
}

function summary(trace, rows) {
  const nats = total(rows.map((one) => one.nats));
  const mean = nats / rows.length;
  const letters = trace.characters.output.length;
  return paragraph("facts", bold(plural(rows.length, "token")),
    `: ${short(mean, 2)} nats per token on average, perplexity ${short(Math.exp(mean), 1)}; `,
    `${short(nats / BITS / letters, 2)} bits per character.`);
}

function sentence(trace, rows, t) {
  if (t >= rows.length) {
    const { top } = trace.document.steps.at(-1);
    return ["After the text, most probable: ", top.slice(0, 3).flatMap(([id, logProb], place) => (
      [place > 0 && ", ", bold(trace.symbol(id)), ` ${percent(probability(logProb))}`])), "."];
  }
  const { label, share, nats, rank, best, bestShare } = rows[t];
  const instead = rank > 1 && ["; the most probable was ", bold(best), ` (${percent(bestShare)})`];
  const facts = `: ${short(nats, 2)} nats, probability ${percent(share)}, rank ${rank}`;
  return [bold(label, "now"), facts, instead, "."];
}

function colourOf(nats, { ramp }) {
  return ramp[Math.round(DARKEST * Math.min(1, nats / STRONGEST))];
}

/** The text as it is written, with line ends; a click on a token goes to its step. */
function shaded({ trace, state, set, colours }, rows, show) {
  const { pieces } = trace.document.output;
  const letters = trace.characters.output;
  let end = 0;
  const tokens = grouped(pieces, letters).filter(({ places }) => places[0] < rows.length).flatMap((group) => {
    const { places, start, end: stop } = group;
    const nats = total(places.map((place) => rows[place].nats));
    const colour = colourOf(nats, colours);
    const before = letters.slice(end, start).join("");
    end = stop;
    return [before, element("span", {
      class: places.includes(state.t) ? "token now" : "token",
      title: `${short(nats, 2)} nats, probability ${percent(Math.exp(-nats))}`,
      style: `background:${css(colour)};color:${inkOn(colour)}`,
      onclick: () => set({ t: places[0], playing: "" }),
      onpointerenter: () => show(places[0]),
    }, letters.slice(start, stop).join(""))];
  });
  return element("p", { class: "prose", dir: "auto", "aria-label": "text shaded by surprise",
    onpointerleave: () => show(Math.min(state.t, rows.length)) }, tokens);
}

/** One bar per token. */
function bars({ state, set }, rows, show) {
  const width = Math.min(24, (state.width - 4) / rows.length);
  const most = Math.max(...rows.map((one) => one.nats).filter(Number.isFinite), 1e-9);
  const picture = canvas("Surprise of each token", rows.length * width + 4, HEIGHT + 4);
  rows.forEach(({ label, nats }, t) => {
    const tall = Math.max(1, (HEIGHT * Math.min(nats, most)) / most);
    const fill = t === state.t ? "var(--accent)" : "var(--data)";
    const across = Math.max(0.5, width - (width > 4 ? 2 : 0));
    const box = { x: t * width, y: HEIGHT - tall, width: across, height: tall };
    picture.append(svg("g", {
      class: "token", onclick: () => set({ t, playing: "" }), onpointerenter: () => show(t),
    }, svg("title", {}, `${label}: ${short(nats, 2)} nats`),
    svg("rect", { x: t * width, y: 0, width, height: HEIGHT, fill: "transparent" }),
    svg("rect", { ...box, rx: width > 6 ? 2 : 0, fill })));
  });
  return picture;
}
