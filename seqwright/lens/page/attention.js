// Which weights are looked at: of one head or many, between pieces or words, with the end mark or without.

import { KINDS } from "./trace.js";

/**
 * The chosen matrix with its labels. Layer −1 and head "all" join matrices: by their mean, their maximum, or
 * a mean weighted by the importance of the heads. `hidden` is the mean weight on the columns left out;
 * `rowOf[i]` and `columnOf[j]` are the places of pieces (−1: left out). `leftward`: the columns are a text
 * that runs from right to left, and are drawn so; `rowsLeftward`: so are the rows, side by side.
 */
export async function chosenMatrix(trace, { kind, layer, head, join, unit, sink }) {
  const key = `matrix ${[kind, layer, head, join, unit, sink]}`;
  return trace.once(key, async () => {
    const joined = await joinedHeads(trace, kind, layer, head, join);
    const [downBlock, acrossBlock] = trace.layers(kind)[0].block;
    const rows = groups(trace, KINDS[kind].rows, downBlock, unit, true);
    const columns = groups(trace, KINDS[kind].columns, acrossBlock, unit, sink);
    const [rowsLeftward, leftward] = ["rows", "columns"].map((side) => trace.leftward[KINDS[kind][side]]);
    const blocks = [downBlock, acrossBlock];
    return { ...merged(joined, rows, columns), count: joined.count, blocks, leftward, rowsLeftward };
  });
}

/** The heads that a choice stands for: [{layer, head, importance}, …]. */
export function chosenHeads(trace, { kind, layer, head }) {
  return trace.layers(kind)
    .filter((one) => layer === -1 || one.layer === layer)
    .flatMap((one) => Array.from({ length: one.heads }, (_, index) => ({ layer: one.layer, head: index })))
    .filter((one) => head === "all" || one.head === Number(head))
    .map((one) => ({ ...one, importance: trace.head(kind, one.layer, one.head)?.importance ?? null }));
}

async function joinedHeads(trace, kind, layer, head, join) {
  const chosen = chosenHeads(trace, { kind, layer, head });
  const weighted = join === "weighted" && chosen.every((one) => one.importance !== null);
  const mass = weighted ? chosen.reduce((sum, one) => sum + one.importance, 0) : chosen.length;
  let sum = null;
  let shape = {};
  for (const one of chosen) {
    const { values, rows, columns } = await trace.weights(kind, one.layer, one.head);
    const share = (weighted ? one.importance : 1) / (mass || 1);
    shape = { rows, columns };
    sum ??= new Float32Array(values.length);
    for (let index = 0; index < sum.length; index++) {
      sum[index] = join === "max" ? Math.max(sum[index], values[index]) : sum[index] + share * values[index];
    }
  }
  return { values: sum, ...shape, count: chosen.length };
}

/** The pieces of an axis in their order, gathered: {labels, members: [[place, …], …], of: place -> group}. */
function groups(trace, name, block, unit, sink) {
  const found = { labels: [], members: [], of: [] };
  const items = trace.axis(name, block);
  const hides = !sink && items.some((one) => !one.sink); // a mark that stands alone is shown
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

/** Between words: the sum over the pieces of a key, the mean over those of a query (Voita et al. 2019). */
function merged({ values, rows: height, columns: width }, rows, columns) {
  const result = new Float32Array(rows.members.length * columns.members.length);
  let all = 0;
  for (let row = 0; row < height; row++) {
    const start = rows.of[row] * columns.members.length;
    const share = 1 / rows.members[rows.of[row]].length;
    for (let column = 0; column < width; column++) {
      if (columns.of[column] < 0) continue;
      const value = values[row * width + column];
      all += value;
      result[start + columns.of[column]] += share * value;
    }
  }
  let sum = 0;
  for (let index = 0; index < values.length; index++) sum += values[index];
  return {
    values: result, hidden: (sum - all) / height,
    rows: rows.labels.length, rowLabels: rows.labels, rowOf: rows.of,
    columns: columns.labels.length, columnLabels: columns.labels, columnOf: columns.of,
  };
}

/** The largest weight, the end of the colours. */
export function peak(values) {
  let most = 0;
  for (let index = 0; index < values.length; index++) if (values[index] > most) most = values[index];
  return most || 1;
}

/** The places of the largest weights of a row, falling: [[column, weight], …]. */
export function best({ values, columns }, row, count) {
  const line = values.subarray(row * columns, (row + 1) * columns);
  const pairs = Array.from(line, (value, column) => [column, value]);
  return pairs.sort((left, right) => right[1] - left[1]).slice(0, count);
}
