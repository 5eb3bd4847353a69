// Choices that outlive the page, where the browser allows that.

export function keep(name, value, store = "localStorage") {
  try {
    globalThis[store].setItem(`seqwright.${name}`, value);
  } catch {
    // a private window: the choice lasts as long as the page
  }
}

export function recall(name, store = "localStorage") {
  try {
    return globalThis[store].getItem(`seqwright.${name}`);
  } catch {
    return null;
  }
}
