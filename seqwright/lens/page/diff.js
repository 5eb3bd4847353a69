// The difference of two texts, by the longest common subsequence of their words.

import { element } from "./elements.js";
import { clusters } from "./scripts.js";

/** Runs [{kind: "same" | "gone" | "new", items: […]}, …]. */
function difference(before, after) {
  const table = lengths(before, after);
  const runs = [];
  const add = (kind, item) => {
    if (runs.at(-1)?.kind !== kind) runs.push({ kind, items: [] });
    runs.at(-1).items.push(item);
  };
  let [left, right] = [0, 0];
  while (left < before.length || right < after.length) {
    if (left < before.length && right < after.length && before[left] === after[right]) {
      add("same", before[left++]);
      right++;
    } else if (left < before.length && !(table[left + 1][right] < table[left][right + 1])) {
      add("gone", before[left++]);
    } else {
      add("new", after[right++]);
    }
  }
  return runs;
}

/** table[i][j]: length of the longest common subsequence of before[i…] and after[j…]. */
function lengths(before, after) {
  const table = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let left = before.length - 1; left >= 0; left--) {
    for (let right = after.length - 1; right >= 0; right--) {
      table[left][right] = before[left] === after[right]
        ? table[left + 1][right + 1] + 1
        : Math.max(table[left + 1][right], table[left][right + 1]);
    }
  }
  return table;
}

/** Two texts in one, deletions struck out and additions underlined; by words, or within one word. */
export function diffed(before, after) {
  const tags = { same: "span", gone: "del", new: "ins" };
  const { runs, gap } = compared(before, after);
  return element("bdi", {}, runs.flatMap(({ kind, text }, place) => (
    [place > 0 && gap, element(tags[kind], {}, text)])));
}

/** The second of two texts, with additions underlined. */
export function additions(before, after) {
  const { runs, gap } = compared(before, after);
  return runs.filter(({ kind }) => kind !== "gone").flatMap(({ kind, text }, place) => (
    [place > 0 && gap, kind === "new" ? element("ins", {}, text) : text]));
}

/** The runs of a difference, and the gap between them: a space, unless both texts are single words. */
function compared(before, after) {
  const gap = [before, after].some((text) => /\s/.test(text.trim())) ? " " : "";
  const cut = (text) => (gap ? text.split(/\s+/).filter(Boolean) : clusters(text));
  const runs = difference(cut(before), cut(after));
  return { gap, runs: runs.map(({ kind, items }) => ({ kind, text: items.join(gap) })) };
}
