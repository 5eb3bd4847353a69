// Selects attention weights: of one or several heads, between tokens or words, with or without the end token.

import { total } from "./numbers.js";

/**
 * The chosen matrix with its labels. Layer −1 and head "all" combine matrices: by mean, maximum, or a mean
 * weighted by the importance of the heads. `hidden` is the mean weight on the hidden columns; `rowOf[i]` and
 * `columnOf[j]` are the positions of tokens (−1: hidden). `leftward`: the columns are a text that runs from
 * right to left, and are drawn so; `rowsLeftward`: the same for the rows when drawn side by side.
 */
export async function chosenMatrix(trace, { kind, layer, head, join, unit, sink }) {
  const key = `matrix ${[kind, layer, head, join, unit, sink]}`;
  return trace.once(key, async () => {
    const chosen = chosenHeads(trace, { kind, layer, head });
    const blocks = blocksOf(trace, { kind, layer, head });
    const heads = await Promise.all(chosen.map((one) => weightsIn(trace, kind, one, blocks)));
    const shares = sharesOf(chosen, join);
    const axes = trace.kind(kind);
    const rows = groups(trace, axes.rows, blocks[0], unit, true);
    const columns = groups(trace, axes.columns, blocks[1], unit, sink);
    const hidden = total(heads.map((one, place) => shares[place] * hiddenWeight(one, columns.of)));
    const [rowsLeftward, leftward] = ["rows", "columns"].map((side) => trace.leftward[axes[side]]);
    const matrix = merged(joined(heads, shares, join), rows, columns);
    return { ...matrix, hidden, count: chosen.length, blocks, leftward, rowsLeftward };
  });
}

/** The number of queries and keys per stored weight; the largest if layers differ. */
export function blocksOf(trace, choice) {
  const found = chosenHeads(trace, choice).map((one) => trace.attention(choice.kind, one.layer).block);
  return [0, 1].map((side) => Math.max(1, ...found.map((block) => block[side])));
}

/** The chosen heads: [{layer, head, importance}, …]. */
export function chosenHeads(trace, { kind, layer, head }) {
  return trace.layers(kind)
    .filter((one) => layer === -1 || one.layer === layer)
    .flatMap((one) => Array.from({ length: one.heads }, (_, index) => ({ layer: one.layer, head: index })))
    .filter((one) => head === "all" || one.head === Number(head))
    .map((one) => ({ ...one, importance: trace.head(kind, one.layer, one.head)?.importance ?? null }));
}

/**
 * The chosen heads if their rows are the steps; otherwise all heads of the first kind whose rows are, such as
 * cross-attention; null without one.
 */
export function stepHeads(trace, { kind, layer, head }) {
  const own = trace.kinds.filter((one) => (
    trace.follows(one) && !(trace.kind(one).columns in trace.document.axes))); // those are not tokens
  const found = own.find((one) => trace.kind(one).columns !== "prefix") ?? own[0];
  return found ? { kind: found, ...(kind === found ? { layer, head } : { layer: -1, head: "all" }) } : null;
}

/** The reason why a model has no attention. */
export function noAttention(trace) {
  const { model } = trace.document;
  const own = model.decoder ? "dec" : "enc";
  const why = trace.absent("cross", "this model has no attention");
  return trace.decoded ? why : `${why} ${trace.absent(own, "it has no self-attention")}`;
}

/** The share of each head in a mean: by importance if chosen and known, else equal. */
function sharesOf(chosen, join) {
  const weighted = join === "weighted" && chosen.every((one) => one.importance !== null);
  const mass = weighted ? total(chosen.map((one) => one.importance)) : 0;
  return chosen.map((one) => (mass > 0 ? one.importance / mass : 1 / chosen.length));
}

function joined(heads, shares, join) {
  const [{ values: { length }, rows, columns }] = heads;
  const values = new Float32Array(length);
  heads.forEach((one, place) => {
    for (let index = 0; index < length; index++) {
      const value = one.values[index];
      values[index] = join === "max" ? Math.max(values[index], value) : values[index] + shares[place] * value;
    }
  });
  return { values, rows, columns };
}

/** The weights of a head, pooled to the given block size. */
async function weightsIn(trace, kind, { layer, head }, blocks) {
  const found = await trace.weights(kind, layer, head);
  const { block, queries, keys } = trace.attention(kind, layer);
  if (block.join() === blocks.join()) return found;
  const [down, across] = [overlaps(queries, block[0], blocks[0]), overlaps(keys, block[1], blocks[1])];
  const [rows, columns] = [Math.ceil(queries / blocks[0]), Math.ceil(keys / blocks[1])];
  const values = new Float32Array(rows * columns);
  for (const [row, to, , mean] of down) {
    for (const [column, at, sum] of across) {
      values[to * columns + at] += mean * sum * found.values[row * found.columns + column];
    }
  }
  return { values, rows, columns };
}

/** Overlaps of small and large blocks of `count` positions: [small, large, share of small, of large]. */
function overlaps(count, small, large) {
  const found = [];
  for (let start = 0, end; start < count; start = end) {
    const [one, other] = [Math.floor(start / small), Math.floor(start / large)];
    const [ends, others] = [Math.min(count, (one + 1) * small), Math.min(count, (other + 1) * large)];
    end = Math.min(ends, others);
    found.push([one, other, (end - start) / (ends - one * small), (end - start) / (others - other * large)]);
  }
  return found;
}

/** The mean weight of a row on hidden columns. */
function hiddenWeight({ values, rows, columns }, of) {
  let sum = 0;
  of.forEach((group, column) => {
    for (let row = 0; group < 0 && row < rows; row++) sum += values[row * columns + column];
  });
  return sum / rows;
}

/** The tokens of an axis in groups: {labels, members: [[place, …], …], of: place -> group}. */
function groups(trace, name, block, unit, sink) {
  const found = { labels: [], members: [], of: [] };
  const items = trace.axis(name, block);
  const hides = !sink && items.some((one) => !one.sink); // a single mark is shown
  let before = null;
  items.forEach((one, place) => {
    if (one.sink && hides) {
      found.of.push(-1);
      return;
    }
    if (unit !== "words" || one.word === null || one.word !== before) {
      found.labels.push(unit === "words" && one.word !== null ? trace.words[name][one.word] : one.label);
      found.members.push([]);
    }
    before = one.word;
    found.members.at(-1).push(place);
    found.of.push(found.members.length - 1);
  });
  return found;
}

/** Weights between words: summed over the tokens of a key, averaged over a query's (Voita et al. 2019). */
function merged({ values, rows: height, columns: width }, rows, columns) {
  const result = new Float32Array(rows.members.length * columns.members.length);
  for (let row = 0; row < height; row++) {
    const start = rows.of[row] * columns.members.length;
    const share = 1 / rows.members[rows.of[row]].length;
    for (let column = 0; column < width; column++) {
      if (columns.of[column] < 0) continue;
      result[start + columns.of[column]] += share * values[row * width + column];
    }
  }
  return {
    values: result,
    rows: rows.labels.length, rowLabels: rows.labels, rowOf: rows.of,
    columns: columns.labels.length, columnLabels: columns.labels, columnOf: columns.of,
  };
}

/** The largest weight: the end of the colour scale. */
export function peak(values) {
  let most = 0;
  for (let index = 0; index < values.length; index++) if (values[index] > most) most = values[index];
  return most || 1;
}

/** The largest weights of a row, descending: [[column, weight], …]. */
export function best({ values, columns }, row, count) {
  const line = values.subarray(row * columns, (row + 1) * columns);
  const pairs = Array.from(line, (value, column) => [column, value]);
  return pairs.sort((left, right) => right[1] - left[1]).slice(0, count);
}
