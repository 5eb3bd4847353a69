// The rest of a Transformer block after an attention: residual, norm and feed-forward at one position, from
// the numbers of the trace (docs/trace.md, "Blocks").

import { short, total } from "./numbers.js";

const NORMS = { layer: "LayerNorm", rms: "RMSNorm" };
const NAMES = { attention: "self-attention", cross: "cross-attention", feed_forward: "feed-forward" };

/**
 * One position in a block: for each sublayer the stream `x` before it, its output `y`, their sum, the norm,
 * and the stream after it. In a "pre" block the norm is that of x, in a "post" block of the sum.
 */
export async function blockFlow(trace, block, place) {
  let x = await rowOf(trace, block.start, place);
  const found = {};
  for (const [name, sublayer] of Object.entries(block.sublayers)) {
    const y = await rowOf(trace, sublayer.output, place);
    const sum = x.map((value, at) => value + y[at]);
    const norm = await normed(trace, block, sublayer, place, block.order === "pre" ? x : sum);
    found[name] = { x, y, sum, norm, after: block.order === "pre" ? sum : norm.result };
    x = found[name].after;
  }
  return found;
}

/** (x − mean) / √(variance + ε) · scale + shift; an RMS norm has no mean and no shift. */
async function normed(trace, { epsilon }, { mean, variance, scale, shift }, place, x) {
  const one = async (packed) => (packed ? (await trace.array(packed)).values[place] : null);
  const [middle, spread] = [await one(mean), await one(variance)];
  const [factors, added] = [await rowOf(trace, scale, 0), shift && (await rowOf(trace, shift, 0))];
  const scaled = x.map((value) => (value - (middle ?? 0)) / Math.sqrt(spread + epsilon));
  const result = scaled.map((value, at) => value * factors[at] + (added?.[at] ?? 0));
  return { mean: middle, variance: spread, scaled, result };
}

async function rowOf(trace, packed, place) {
  const { values, shape } = await trace.array(packed);
  const size = shape.at(-1);
  return Array.from(values.subarray(place * size, (place + 1) * size));
}

/** The sections [title, lines] of a block from the attention `sublayer` on. */
export async function blockSections(trace, block, sublayer, place) {
  const flow = await blockFlow(trace, block, place);
  const [first, last, cross] = [flow[sublayer], flow.feed_forward, sublayer === "attention" && flow.cross];
  const hidden = block.hidden ? await hiddenLines(trace, block.hidden, place) : [];
  const whole = [{ label: "y  output", values: last.y, size: block.size }];
  const section = (title, sublayer, name) => [around(block, title), residualLines(block, sublayer, name)];
  return [
    section("Residual stream after the attention", first, "y  of all heads, times W_O"),
    cross && section("Residual stream after the cross-attention", cross, "y  of the cross-attention"),
    block.order === "pre" && [
      `${NORMS[block.norm]} before the feed-forward`, normLines(block, last.norm, last.x),
    ],
    ["Feed-forward", [...hidden, ...whole]],
    section("Output of the block", last, "y  of the feed-forward"),
  ].filter(Boolean);
}

/** The name of the sublayer that an attention is. */
export function sublayerOf(block, attention) {
  const name = attention.name.slice(block.name.length + 1);
  return name in block.sublayers ? name : null;
}

/** The name of a block and sublayer for a sentence. */
export function blockName(block, sublayer) {
  return `block ${block.layer} of the ${block.part} after its ${NAMES[sublayer]}`;
}

function around({ order, norm }, title) {
  return order === "pre" ? title : `${title}, with ${NORMS[norm]}`;
}

function residualLines(block, { x, y, sum, norm }, name) {
  const line = (label, values) => ({ label, values, size: block.size });
  return [
    line("x  stream before", x), line(name, y), line("x + y", sum),
    ...(block.order === "post" ? normLines(block, norm) : []),
  ];
}

/** The norm of the line above, or of `input`. */
function normLines({ norm, size, epsilon }, { mean, variance, scaled, result }, input) {
  const rms = norm === "rms";
  const [all, spread] = [`, over all ${size} numbers`, rms ? "mean of squares" : "variance"];
  const root = `√(${spread} + ε) = ${short(Math.sqrt(variance + epsilon), 4)}`;
  return [
    input && { label: "x", values: input, size },
    mean !== null && { label: "mean", text: short(mean, 4) + all },
    { label: spread, text: `${short(variance, 4)}${all}; ${root}` },
    { label: rms ? "x / √" : "(x − mean) / √", values: scaled, size },
    { label: rms ? "· scale" : "· scale + shift", values: result, size },
  ].filter(Boolean);
}

async function hiddenLines(trace, hidden, place) {
  const row = (name) => rowOf(trace, hidden[name], place);
  const one = async (name) => (await trace.array(hidden[name])).values[place];
  const [units, before, after, weights] = await Promise.all(["units", "before", "after", "weights"].map(row));
  const [above, to, rest] = await Promise.all(["above", "to", "rest"].map(one));
  const bias = hidden.bias ? await one("bias") : 0;
  const products = after.map((value, at) => value * weights[at]);
  const sum = total(products);
  const others = hidden.size - units.length;
  const gated = hidden.kind === "gated";
  const added = [
    others > 0 && `${short(rest, 4)} from ${others} others`, hidden.bias && `${short(bias, 4)} bias`,
  ].filter(Boolean).map((text) => ` + ${text}`).join("");
  const strongest = `${units.join(", ")}; ${above} of ${hidden.size} are positive`;
  return [
    { label: others > 0 ? `${units.length} strongest units` : "units", text: strongest },
    { label: gated ? "g = W₁x + b" : "h = W₁x + b", values: before },
    gated && { label: "v = W₃x + b", values: await row("value") },
    { label: `${hidden.activation}(${gated ? "g) ⊙ v" : "h)"}`, values: after },
    { label: `times W₂, to number ${to}`, values: products },
    { label: `number ${to} of y`, text: `${short(sum, 4)}${added} = ${short(sum + rest + bias, 4)}` },
  ].filter(Boolean);
}
