// A trace (docs/trace.md). Each array is unpacked once, when it is needed.

import { runsLeft, standing } from "./scripts.js";
import { nameText, pieceLabel, shorten, wordText } from "./text.js";

const ARRAYS = { uint8: Uint8Array, uint16: Uint16Array, int32: Int32Array, float32: Float32Array };
const FOLLOWING = ["steps", "prefix"]; // axes on which the current step is a place
const NOTHING = { text: "", pieces: [], words: [] }; // the source of a model without an encoder

export class Trace {
  constructor(document, place) {
    this.document = document;
    this.name = `${place + 1} · ${nameOf(document.model)}`;
    this.names = document.names;
    this.length = document.steps.length;
    this.kinds = Object.keys(document.kinds).filter((kind) => this.layers(kind).length);
    this.cache = new Map();
    const { output, text } = document;
    const sides = { source: { ...(document.source ?? NOTHING), text }, steps: output, ...document.axes };
    const of = (make) => Object.fromEntries(Object.entries(sides).map(([name, side]) => [name, make(side)]));
    const characters = of((side) => Array.from(side.text));
    this.characters = { source: characters.source, output: characters.steps };
    this.axes = of((side) => {
      const letters = Array.from(side.text);
      if (side.name) {
        return side.pieces.map(({ text: own }) => ({ label: nameText(own), word: null, sink: false }));
      }
      return side.pieces.map((piece) => item(piece, letters, side !== output && piece.special === "end"));
    });
    const begin = { label: wordText(output.begin ?? "⟨begin⟩"), word: null, sink: true };
    this.axes.prefix = [begin, ...this.axes.steps.slice(0, -1)];
    this.words = of((side) => side.words.map((word) => standing(wordText(word.text))));
    this.leftward = of((side) => runsLeft(side.text));
    for (const table of [this.words, this.leftward]) table.prefix = table.steps;
  }

  /** Whether the output was found by a search; otherwise its predictions were read off at once. */
  get searched() {
    return this.document.search !== null;
  }

  /** Whether the output is a text that the model wrote token by token: by a search, or drawn. */
  get decoded() {
    return this.searched || Boolean(this.document.output.decoded);
  }

  /** Whether the output is the text itself, each token of which the model predicts. */
  get given() {
    return Boolean(this.document.output.given);
  }

  /** A kind of attention: {title, rows, columns}, the axes by name, and `name`, "output → source". */
  kind(kind) {
    const found = this.document.kinds[kind];
    const { names, document: { axes } } = this;
    const called = (axis) => axes[axis]?.name ?? (axis === "source" ? names.source : names.output);
    return { ...found, name: `${called(found.rows)} → ${called(found.columns)}` };
  }

  /** Whether the rows of a kind of attention are the steps. */
  follows(kind) {
    return FOLLOWING.includes(this.document.kinds[kind]?.rows);
  }


  /** The place of the source at which a step predicts; null if it predicts from all of it. */
  placeOf(t) {
    return this.document.steps[t].place ?? null;
  }

  /** The text of a target token. */
  symbol(id) {
    const text = this.document.symbols[id] ?? `#${id}`;
    return standing(this.decoded || this.given ? wordText(text) : nameText(text) || wordText(text));
  }

  /** The attentions of a kind, for layers that have heads. */
  layers(kind) {
    return this.document.attention.filter((one) => one.kind === kind && one.heads > 0);
  }

  attention(kind, layer) {
    return this.document.attention.find((one) => one.kind === kind && one.layer === layer);
  }

  /** The row of the table of heads. */
  head(kind, layer, head) {
    return this.document.heads.find((one) => same(one, kind, layer, head));
  }

  ablation(kind, layer, head) {
    return this.document.ablations?.find((one) => same(one, kind, layer, head));
  }

  /** A branch by name; undefined if the trace does not have it. */
  branch(name) {
    return this.document.branches?.find((one) => branchName(one) === name);
  }

  /** The Transformer block of an attention, if its numbers are in the trace. */
  block(attention) {
    return this.document.blocks?.find((one) => attention.name.startsWith(`${one.name}.`));
  }

  /** The weights of one head, {values, rows, columns, leftward}; rows and columns may be blocks. */
  async weights(kind, layer, head) {
    return this.once(`${kind}.${layer}.${head}`, async () => {
      const entry = this.attention(kind, layer);
      const { values: all, shape: [, rows, columns] } = await this.array(entry.weights);
      const [size, scale] = [rows * columns, entry.scales[head] / entry.levels];
      const numbers = all.subarray(head * size, (head + 1) * size);
      const values = Float32Array.from(numbers, (number) => number * scale);
      return { values, rows, columns, leftward: this.leftward[this.kind(kind).columns] };
    });
  }

  /** A packed array as {values, shape}. */
  array(packed) {
    return this.once(packed, () => unpack(packed));
  }

  /** Part `index` along the first axis of a packed array of vectors: a list of its rows. */
  async rowsOf(packed, index) {
    const { values, shape } = await this.array(packed);
    const [rows, size] = shape.length === 3 ? shape.slice(1) : [1, shape[1]];
    const first = Math.min(index, shape[0] - 1) * rows * size;
    const row = (place) => values.subarray(first + place * size, first + (place + 1) * size);
    return Array.from({ length: rows }, (_, place) => row(place));
  }

  once(key, make) {
    if (!this.cache.has(key)) this.cache.set(key, make());
    return this.cache.get(key);
  }

  /** The labels of an axis, `block` items at a time. */
  axis(name, block = 1) {
    const items = this.axes[name];
    if (block === 1) return items;
    return Array.from({ length: Math.ceil(items.length / block) }, (_, place) => {
      const part = items.slice(place * block, (place + 1) * block);
      const [first, last] = [part[0], part.at(-1)].map((one) => shorten(one.label, 6));
      return { label: `${first}…${last}`, word: null, sink: false };
    });
  }

  /** The stored logits of a step with their ids. */
  async logits(t) {
    const { logits, steps } = this.document;
    const [ids, values] = await Promise.all([this.array(logits.ids), this.array(logits.values)]);
    const size = ids.shape[1];
    const row = (array) => [...array.values.subarray(t * size, (t + 1) * size)];
    return { ids: row(ids), logits: row(values), rest: steps[t].rest ?? -Infinity };
  }

  /** The reason why something is missing, as a sentence. */
  absent(key, otherwise) {
    return sentence(this.document.absent[key] ?? otherwise);
  }
}

function nameOf({ step, encoder, decoder }) {
  if (step !== null) return `step ${step.toLocaleString("en")}`;
  return [...new Set([encoder, decoder])].filter(Boolean).join("–");
}

/** The name of a branch in the address. */
export function branchName({ step, id }) {
  return `${step}.${id}`;
}

function item(piece, characters, sink) {
  return { label: pieceLabel(piece, characters), word: piece.word, sink };
}

function same(one, kind, layer, head) {
  return one.kind === kind && one.layer === layer && one.head === head;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** A packed array as {values, shape}. */
export async function unpack({ dtype, shape, data }) {
  const packed = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return { values: new ARRAYS[dtype](await new Response(stream).arrayBuffer()), shape };
}
