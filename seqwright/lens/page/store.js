// The choices of the user. Those worth sharing are stored in the address: #t=4&kind=cross&layer=3.

const SHARED = {
  a: Number, b: Number, t: Number, view: String, kind: String, layer: Number, head: String, q: Number,
  k: Number, off: String, branch: String, join: String, layout: String, unit: String, sink: Boolean,
  rows: String, columns: String, table: Boolean, temperature: Number, topk: Number, topp: Number,
  penalty: Number, cell: Number, symbol: Number, big: Boolean, theme: String, channel: Number,
};

/** A store: `state` to read, `set` to change; listeners are called once per batch of changes. */
export function createStore(defaults) {
  const store = { state: { ...defaults, ...fromAddress() }, set, listen };
  const listeners = [];
  let waiting = false;

  function set(changes) {
    const changed = Object.entries(changes).filter(([key, value]) => store.state[key] !== value);
    if (!changed.length) return;
    store.state = { ...store.state, ...Object.fromEntries(changed) };
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => {
      waiting = false;
      toAddress(store.state, defaults);
      listeners.forEach((listener) => listener(store.state));
    });
  }

  function listen(listener) {
    listeners.push(listener);
  }

  const shared = Object.fromEntries(Object.keys(SHARED).map((key) => [key, defaults[key]]));
  window.addEventListener("hashchange", () => set({ ...shared, ...fromAddress() }));
  return store;
}

function fromAddress() {
  const found = {};
  for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
    const kind = SHARED[key];
    const value = kind === Boolean ? text === "1" : kind?.(text);
    if (kind && !Number.isNaN(value)) found[key] = value;
  }
  return found;
}

function toAddress(state, defaults) {
  const parts = new URLSearchParams();
  for (const [key, kind] of Object.entries(SHARED)) {
    const value = state[key];
    if (value !== defaults[key] && value !== null) parts.set(key, kind === Boolean ? Number(value) : value);
  }
  try {
    history.replaceState(null, "", `#${parts}`);
  } catch {
    // a page inside a notebook has no address
  }
}
