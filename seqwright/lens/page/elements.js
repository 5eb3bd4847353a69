// HTML and SVG elements. Text is always text: nothing on the page parses markup.

const SVG = "http://www.w3.org/2000/svg";
// Controls, line separators, and the direction marks (Unicode 15, UAX #9) that reach beyond their text
const ORDERS = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e]/g;
export const LETTERS = 15; // font size of the page in pixels, unless the text is large

/**
 * An element. Attributes on… are listeners, aria-… are written as "true" and "false"; otherwise null,
 * undefined and false omit an attribute or a child.
 */
export function element(name, attributes = {}, ...children) {
  return assemble(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return assemble(document.createElementNS(SVG, name), attributes, children);
}

/** Text in a picture, vertically centred at y. */
export function words(text, x, y, attributes = {}) {
  return svg("text", { x, y, "dominant-baseline": "central", fill: "var(--ink)", ...attributes }, text);
}

/** An empty picture. Its units are pixels at the usual font size, and scale with it. */
export function canvas(label, width, height, attributes = {}) {
  const picture = svg("svg", { "font-size": 13, role: "group", "aria-label": label, ...attributes });
  return sized(picture, Math.ceil(width), Math.ceil(height));
}

export function sized(picture, width, height) {
  const style = `width:${width / LETTERS}rem;height:${height / LETTERS}rem`;
  return assemble(picture, { width, height, viewBox: `0 0 ${width} ${height}`, style }, []);
}

/** Replaces the children of an element. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  return assemble(parent, {}, children);
}

function assemble(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key.startsWith("aria-")) made.setAttribute(key, String(value));
    else if (present(value)) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter(present).map((child) => (
    typeof child === "string" ? withoutOrders(child) : child
  )));
  return made;
}

/** A text in which characters that turn the direction of its surroundings, and controls, are only named. */
export function withoutOrders(text) {
  const name = (character) => `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  return text.replace(ORDERS, name);
}

function present(value) {
  return value !== null && value !== undefined && value !== false;
}

export function button(label, action, attributes = {}) {
  return element("button", { type: "button", onclick: action, ...attributes }, label);
}

/** Radio buttons: [value, label, hint]. Arrow keys move between them. */
export function choice(label, options, value, change) {
  const reached = Math.max(0, options.findIndex(([option]) => option === value)); // first by default
  const buttons = options.map(([option, text, hint], place) => button(text, () => change(option), {
    role: "radio", "aria-checked": option === value, tabindex: place === reached ? 0 : -1, title: hint,
  }));
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    buttons[(buttons.indexOf(event.target) + step + buttons.length) % buttons.length].click();
  };
  const group = { class: "choice", role: "radiogroup", "aria-label": label, "data-key": label };
  return element("div", { ...group, onkeydown: move }, buttons);
}

/** A switch with its label. */
export function toggle(label, value, change, hint) {
  const attributes = { class: "toggle", role: "switch", "aria-checked": value, "data-key": label };
  return button([element("i"), label], () => change(!value), { ...attributes, title: hint });
}

/** A select menu: [value, label]. */
export function menu(label, options, value, change) {
  const list = element(
    "select",
    { "aria-label": label, "data-key": label, onchange: () => change(options[list.selectedIndex][0]) },
    options.map(([option, text]) => element("option", { selected: option === value }, text)),
  );
  return element("label", { class: "menu" }, element("span", {}, label), list);
}

/** A slider with its label and its formatted value. */
export function slider(label, { min, max, step, value, format = String }, change) {
  const shown = element("output", {}, format(value));
  const range = element("input", {
    type: "range", min, max, step, "aria-label": label, "aria-valuetext": format(value), "data-key": label,
  });
  range.value = value;
  range.addEventListener("input", () => {
    shown.textContent = format(Number(range.value));
    range.setAttribute("aria-valuetext", shown.textContent);
    change(Number(range.value));
  });
  return element("label", { class: "slider" }, element("span", {}, label), range, shown);
}

/** Copies the value of another slider without replacing this one, which the user may be dragging. */
export function follow(slider, other) {
  const parts = (one) => one.querySelectorAll("input, output");
  const [[range, shown], [wanted, text]] = [parts(slider), parts(other)];
  range.value = wanted.value;
  range.setAttribute("aria-valuetext", wanted.getAttribute("aria-valuetext"));
  shown.textContent = text.textContent;
}

/** The attributes of a drawn button: for the mouse, Enter and the space bar. */
export function pressed(action) {
  const onkeydown = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    action(event);
  };
  return { tabindex: 0, role: "button", onclick: action, onkeydown };
}

/** Bold text with its own writing direction. */
export function bold(text, name) {
  return element("b", { class: name, dir: "auto" }, text);
}

export function paragraph(name, ...children) {
  return element("p", { class: name }, ...children);
}

/** A sentence shown instead of a view that does not apply. */
export function notice(text) {
  return paragraph("notice", text);
}

/** A scrollable picture. */
export function scroll(picture) {
  return element("div", { class: "scroll" }, picture);
}
