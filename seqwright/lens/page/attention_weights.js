// The attention of one query over all keys of one head, computed from a trace (docs/trace.md, "Attention").

import { total } from "./numbers.js";

/**
 * softmax(score + bias) · v + value bias, with all intermediate values.
 *
 * products[j]: elementwise products whose sum is the score of key j; scores: input of the softmax;
 * powers: exp(score − largest score); weights: powers over their sum; context: the weighted values, summed.
 */
export async function attentionWeights(trace, { vectors }, head, query) {
  const rows = (name) => (vectors[name] ? trace.rowsOf(vectors[name], head) : null);
  const names = ["q", "k", "v", "bias", "raw_q", "weight", "value_bias"];
  const [q, keys, values, bias, raw, weight, valueBias] = await Promise.all(names.map(rows));
  const products = keys.map((key) => elementwise(vectors.score, q[query], key, weight?.[0]));
  const factor = vectors.score === "additive" ? 1 : vectors.factor;
  const moved = bias?.[query] ?? new Float32Array(keys.length);
  const scores = products.map((product, place) => factor * total(product) + moved[place]);
  const most = scores.reduce((best, score) => Math.max(best, score), -Infinity);
  const powers = scores.map((score) => Math.exp(score - most));
  const mass = total(powers);
  const weights = powers.map((power) => power / mass);
  const added = valueBias?.[query] ?? null;
  const context = values[0].map((_, at) => (
    values.reduce((sum, value, place) => sum + weights[place] * value[at], added?.[at] ?? 0)));
  const inputs = { q: q[query], raw: raw?.[query], weight: weight?.[0], keys, products, factor, moved };
  return { ...inputs, scores, most, powers, weights, values, added, context };
}

/** q ⊙ k, or w ⊙ tanh(q + k) for the additive score. */
function elementwise(score, q, key, weight) {
  if (score === "additive") return Array.from(q, (one, at) => weight[at] * Math.tanh(one + key[at]));
  return Array.from(q, (one, at) => one * key[at]);
}

/**
 * One step of a recurrent layer: the gates and states at step t, and the new state computed from them.
 */
export async function recurrentStep(trace, layer, t) {
  const at = async (packed, row) => (await trace.rowsOf(packed, row))[0];
  const gates = {};
  for (const [name, packed] of Object.entries(layer.gates)) gates[name] = await at(packed, t);
  const before = {};
  for (const [name, packed] of Object.entries(layer.states)) before[name] = await at(packed, t);
  const each = (make) => gates[Object.keys(gates)[0]].map((_, place) => make(place));
  if (layer.cell === "lstm") {
    const c = each((place) => gates.f[place] * before.c[place] + gates.i[place] * gates.g[place]);
    return { gates, before, after: { c, h: each((place) => gates.o[place] * Math.tanh(c[place])) } };
  }
  const h = each((place) => (1 - gates.z[place]) * gates.n[place] + gates.z[place] * before.h[place]);
  return { gates, before, after: { h } };
}
