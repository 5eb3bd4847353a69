// Arithmetic of the page.

export function softmax(values) {
  const total = logSumExp(values);
  return values.map((value) => Math.exp(value - total));
}

export function logSumExp(values) {
  const largest = values.reduce((best, value) => Math.max(best, value), -Infinity);
  if (largest === -Infinity) return -Infinity;
  return largest + Math.log(values.reduce((sum, value) => sum + Math.exp(value - largest), 0));
}

/** The probability of a logarithm in the trace, where null is −∞. */
export function probability(logProb) {
  return logProb === null ? 0 : Math.exp(logProb);
}

/** A number with a useful number of digits. */
export function short(value, digits = 3) {
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : value > 0 ? "∞" : "–";
  const size = Math.abs(value);
  const tiny = size !== 0 && size < 10 ** -digits && digits > 2;
  const text = tiny ? value.toExponential(1) : value.toFixed(digits);
  return text.replace("-", "−");
}

/** A number before and after, and the change. */
export function moved(before, after) {
  const change = after - before;
  return `${short(before)} → ${short(after)} (${change > 0 ? "+" : ""}${short(change)})`;
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1\u00a0%";
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;
}

export function largest(values) {
  let best = 0;
  for (let index = 1; index < values.length; index++) if (values[index] > values[best]) best = index;
  return best;
}

/**
 * The distribution of a step after temperature, then top-k, then top-p (0 and 1: all).
 *
 * logits: the largest ones, descending; rest: the log-sum-exp of all others (−∞ if there are none). At
 * another temperature, the mass of the others is only bounded (docs/trace.md); the bound is exact at 1.
 */
export function reshape({ logits, rest }, { temperature, topK, topP }) {
  const tail = rest === -Infinity ? rest : rest + (1 / temperature - 1) * logits.at(-1);
  const shares = softmax([...logits.map((logit) => logit / temperature), tail]);
  const others = shares.pop();
  const open = topK === 0 || topK > logits.length;
  let kept = open ? logits.length : topK;
  const wanted = topP * (total(shares.slice(0, kept)) + (open ? others : 0));
  let sum = 0;
  const reach = topP < 1 ? shares.slice(0, kept).findIndex((share) => (sum += share) >= wanted) : -1;
  if (reach >= 0) kept = reach + 1;
  const left = open && reach < 0 ? others : 0;
  const mass = total(shares.slice(0, kept)) + left;
  return { shares: shares.map((share, index) => (index < kept ? share / mass : 0)), rest: left / mass, kept };
}

export function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** The divisor of log p for a length (docs/search.md): Wu et al. 2016, eq. 14; a power of the length; 1. */
export function penalty(rule, exponent, length) {
  if (rule === "wu") return ((5 + length) / 6) ** exponent;
  if (rule === "mean") return length ** exponent;
  return 1;
}

/** Spearman's rank correlation; ties share their mean rank. */
export function rankCorrelation(left, right) {
  const [a, b] = [ranks(left), ranks(right)];
  const mean = (a.length - 1) / 2;
  let [both, one, other] = [0, 0, 0];
  for (let index = 0; index < a.length; index++) {
    both += (a[index] - mean) * (b[index] - mean);
    one += (a[index] - mean) ** 2;
    other += (b[index] - mean) ** 2;
  }
  return one && other ? both / Math.sqrt(one * other) : NaN;
}

function ranks(values) {
  const order = [...values.keys()].sort((a, b) => values[a] - values[b]);
  const result = new Array(values.length);
  for (let start = 0; start < order.length; ) {
    let end = start;
    while (end < order.length && values[order[end]] === values[order[start]]) end++;
    for (let place = start; place < end; place++) result[order[place]] = (start + end - 1) / 2;
    start = end;
  }
  return result;
}

/**
 * The divergence Σ p log(p / q) in nats of two distributions known by their best tokens: [[token, p], …].
 *
 * Tokens that either side does not list are one event together. Merging events cannot raise a divergence
 * (Cover & Thomas 2006, 2.7.1), so the true one is at least this.
 */
export function divergence(left, right) {
  const other = new Map(right);
  const common = left.filter(([token]) => other.has(token));
  const rest = (shares) => Math.max(1e-12, 1 - total(shares));
  const pairs = common.map(([token, share]) => [share, other.get(token)]);
  pairs.push([rest(common.map(([, share]) => share)), rest(common.map(([token]) => other.get(token)))]);
  return Math.max(0, total(pairs.map(([p, q]) => (p > 0 ? p * Math.log(p / Math.max(q, 1e-12)) : 0))));
}
