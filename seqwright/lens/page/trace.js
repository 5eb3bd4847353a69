// A trace (docs/trace.md), read when it is asked for: an array is unpacked once, by the browser itself.

import { pieceText, shorten, visible } from "./text.js";

const ARRAYS = { uint8: Uint8Array, uint16: Uint16Array, int32: Int32Array, float32: Float32Array };
export const KINDS = {
  cross: { name: "output → source", title: "Cross-attention", rows: "steps", columns: "source" },
  enc: { name: "source → source", title: "Encoder", rows: "source", columns: "source" },
  dec: { name: "output → output", title: "Decoder", rows: "prefix", columns: "prefix" },
};

export class Trace {
  constructor(document, place) {
    this.document = document;
    this.name = `${place + 1} · ${nameOf(document.model)}`;
    this.length = document.steps.length;
    this.kinds = Object.keys(KINDS).filter((kind) => this.layers(kind).length);
    this.cache = new Map();
    const steps = document.output.pieces.map((piece) => item(piece, false));
    this.axes = {
      source: document.source.pieces.map((piece) => item(piece, piece.special === "end")),
      steps,
      prefix: [{ label: "⟨begin⟩", word: null, sink: true }, ...steps.slice(0, -1)],
    };
    const { source, output } = document;
    this.words = { source: source.words, steps: output.words, prefix: output.words };
  }

  /** What a symbol of the target looks like. */
  symbol(id) {
    const text = this.document.symbols[id] ?? `#${id}`;
    return visible(text.trim() === "" ? text : text.trim());
  }

  /** The attentions of a kind, one for each layer that still has a head. */
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

  /** The weights of one head, {values, rows, columns}; rows and columns may be blocks. */
  async weights(kind, layer, head) {
    return this.once(`${kind}.${layer}.${head}`, async () => {
      const entry = this.attention(kind, layer);
      const { values, shape: [, rows, columns] } = await this.array(entry.weights);
      const [size, scale] = [rows * columns, entry.scales[head] / entry.levels];
      const numbers = values.subarray(head * size, (head + 1) * size);
      return { values: Float32Array.from(numbers, (number) => number * scale), rows, columns };
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

  /** The labels along an axis whose items are taken `block` at a time. */
  axis(name, block = 1) {
    const items = this.axes[name];
    if (block === 1) return items;
    return Array.from({ length: Math.ceil(items.length / block) }, (_, place) => {
      const part = items.slice(place * block, (place + 1) * block);
      const [first, last] = [part[0], part.at(-1)].map((one) => shorten(one.label, 6));
      return { label: `${first}…${last}`, word: null, sink: false };
    });
  }

  /** The best stored logits of a step with their ids. */
  async logits(t) {
    const { logits, steps } = this.document;
    const [ids, values] = await Promise.all([this.array(logits.ids), this.array(logits.values)]);
    const size = ids.shape[1];
    const row = (array) => [...array.values.subarray(t * size, (t + 1) * size)];
    return { ids: row(ids), logits: row(values), rest: steps[t].rest ?? -Infinity };
  }

  /** Why something is not in the trace. */
  absent(key, otherwise) {
    return sentence(this.document.absent[key] ?? otherwise);
  }
}

function nameOf({ step, encoder, decoder }) {
  if (step !== null) return `step ${step.toLocaleString("en")}`;
  return encoder === decoder ? encoder : `${encoder}–${decoder}`;
}

function item(piece, sink) {
  return { label: pieceText(piece), word: piece.word, sink };
}

function same(one, kind, layer, head) {
  return one.kind === kind && one.layer === layer && one.head === head;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

async function unpack({ dtype, shape, data }) {
  const packed = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return { values: new ARRAYS[dtype](await new Response(stream).arrayBuffer()), shape };
}
