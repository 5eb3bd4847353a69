// Elements of HTML and SVG. Text is always text: nothing here, or anywhere on the page, parses markup.

const SVG = "http://www.w3.org/2000/svg";
export const LETTERS = 15; // pixels of the letters of the page, unless they are big

/**
 * An element. Attributes named on… are listeners; those named aria-… say true and false in words; elsewhere
 * null, undefined and false leave an attribute, or a child, out.
 */
export function element(name, attributes = {}, ...children) {
  return dress(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, name), attributes, children);
}

/** Words in a picture, their middle line at y. */
export function words(text, x, y, attributes = {}) {
  return svg("text", { x, y, "dominant-baseline": "central", fill: "var(--ink)", ...attributes }, text);
}

/** The ground of a picture. Its units are pixels where letters have their usual size, and grow with them. */
export function canvas(label, width, height, attributes = {}) {
  const picture = svg("svg", { "font-size": 13, role: "group", "aria-label": label, ...attributes });
  return sized(picture, Math.ceil(width), Math.ceil(height));
}

export function sized(picture, width, height) {
  const style = `width:${width / LETTERS}rem;height:${height / LETTERS}rem`;
  return dress(picture, { width, height, viewBox: `0 0 ${width} ${height}`, style }, []);
}

/** Put children into an element in place of what was there. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  return dress(parent, {}, children);
}

function dress(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key.startsWith("aria-")) made.setAttribute(key, String(value));
    else if (there(value)) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter(there));
  return made;
}

function there(value) {
  return value !== null && value !== undefined && value !== false;
}

export function button(label, action, attributes = {}) {
  return element("button", { type: "button", onclick: action, ...attributes }, label);
}

/** A row of choices of which one holds: [value, label, hint]. Arrow keys move, as in radio buttons. */
export function choice(label, options, value, change) {
  const reached = Math.max(0, options.findIndex(([option]) => option === value)); // also where none holds
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

/** A list to choose one thing from: [value, label]. */
export function menu(label, options, value, change) {
  const list = element(
    "select",
    { "aria-label": label, "data-key": label, onchange: () => change(options[list.selectedIndex][0]) },
    options.map(([option, text]) => element("option", { selected: option === value }, text)),
  );
  return element("label", { class: "menu" }, element("span", {}, label), list);
}

/** A slider with its label and its value in words. */
export function slider(label, { min, max, step, value, say = String }, change) {
  const said = element("output", {}, say(value));
  const range = element("input", {
    type: "range", min, max, step, "aria-label": label, "aria-valuetext": say(value), "data-key": label,
  });
  range.value = value;
  range.addEventListener("input", () => {
    said.textContent = say(Number(range.value));
    range.setAttribute("aria-valuetext", said.textContent);
    change(Number(range.value));
  });
  return element("label", { class: "slider" }, element("span", {}, label), range, said);
}

/** Bring a slider to where another one is, and leave it in its place: it may be under a finger. */
export function follow(slider, other) {
  const [[range, said], [wanted, says]] = [slider, other].map((one) => one.querySelectorAll("input, output"));
  range.value = wanted.value;
  range.setAttribute("aria-valuetext", wanted.getAttribute("aria-valuetext"));
  said.textContent = says.textContent;
}

/** The attributes of something drawn that is a button: for the mouse, for Enter and for the space bar. */
export function pressed(action) {
  const onkeydown = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    action(event);
  };
  return { tabindex: 0, role: "button", onclick: action, onkeydown };
}

/** Text that stands out, in its own direction whatever that of the sentence is. */
export function bold(text, name) {
  return element("b", { class: name, dir: "auto" }, text);
}

export function paragraph(name, ...children) {
  return element("p", { class: name }, ...children);
}

/** A sentence in the place of a view that does not apply. */
export function because(text) {
  return paragraph("because", text);
}

/** A picture that may be wider than its place. */
export function scroll(picture) {
  return element("div", { class: "scroll" }, picture);
}
