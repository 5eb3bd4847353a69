// The trace of a forecast (docs/trace.md). Each array is unpacked once, when it is needed.

import { unpack } from "./trace.js";

export class ForecastTrace {
  constructor(document, place) {
    this.document = document;
    const { network, step } = document.model;
    this.name = `${place + 1} · ${step === null ? network : `step ${step.toLocaleString("en")}`}`;
    this.kinds = Object.keys(document.kinds);
    this.cache = new Map();
  }

  /** The entries of a kind of weights, one for each layer. */
  layers(kind) {
    return this.document.weights.filter((one) => one.kind === kind);
  }

  /** The layers and heads of a choice; −1 and "all" choose all of them. */
  chosen({ kind, layer, head }) {
    const wanted = (number) => head === "all" || number === Number(head);
    return this.layers(kind).filter((one) => layer < 0 || one.layer === layer)
      .map((entry) => ({ entry, heads: [...Array(entry.heads).keys()].filter(wanted) }))
      .filter(({ heads }) => heads.length);
  }

  /**
   * The mean of the chosen layers and heads for one channel: {values, rows, columns, cells, below, own,
   * signed}.
   *
   * rows and columns: spans [first step, step behind the last]; cells: the columns without overlaps; below:
   * "forecast" or "past", to which the rows belong, and own: the step at which it begins.
   */
  async matrix(choice) {
    const key = JSON.stringify([choice.kind, choice.layer, choice.head, choice.channel]);
    if (!this.cache.has(key)) this.cache.set(key, this.joined(choice));
    return this.cache.get(key);
  }

  async joined(choice) {
    const chosen = this.chosen(choice);
    const [{ entry: { rows, columns } }] = chosen;
    const { rows: below, signed } = this.document.kinds[choice.kind];
    const [size, values] = [rows.length * columns.length, new Float32Array(rows.length * columns.length)];
    const count = chosen.reduce((sum, { heads }) => sum + heads.length, 0);
    for (const { entry, heads } of chosen) {
      const array = await this.unpacked(entry.weights);
      const shared = array.shape[0] === entry.heads; // one for all channels
      for (const head of heads) {
        const place = (shared ? 0 : choice.channel * entry.heads) + head;
        const unit = (entry.scales ? entry.scales[place] / entry.levels : 1) / count;
        for (let index = 0; index < size; index++) values[index] += array.values[place * size + index] * unit;
      }
    }
    const own = below === "forecast" ? this.document.lookback : 0;
    return { values, rows, columns, cells: withoutOverlaps(columns), below, own, signed };
  }

  unpacked(packed) {
    if (!this.cache.has(packed)) this.cache.set(packed, unpack(packed));
    return this.cache.get(packed);
  }

  /** The times of the first and the last step of a span of the past, or of the forecast. */
  times([start, end], below) {
    const { times, lookback } = this.document;
    const from = below === "forecast" ? lookback : 0;
    return [times[from + start], times[from + end - 1]].map(shortTime);
  }
}

/** Spans whose borders are in the middle of what neighbours share. */
function withoutOverlaps(spans) {
  const borders = spans.slice(1).map(([start], place) => (start + spans[place][1]) / 2);
  return spans.map(([start, end], place) => [borders[place - 1] ?? start, borders[place] ?? end]);
}

/** A time without seconds and hours that are zero. */
export function shortTime(time) {
  return time.replace(/^(\d+-\d\d-\d\d \d\d:\d\d):00$/, "$1").replace(/^(\d+-\d\d-\d\d) 00:00$/, "$1");
}
