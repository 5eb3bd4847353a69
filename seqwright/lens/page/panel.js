// The frame around a view: title, controls, body, and buttons for tables and files.

import { button, element, fill, follow, notice, toggle } from "./elements.js";
import { pngBlob, save, svgText } from "./saving.js";
import { csvOf, tableOf } from "./table.js";

/**
 * A frame that shows one view at a time. A view is {name, title, lead, depends, applies, unavailable,
 * controls, draw}:
 *
 * title and lead are texts, or functions of the trace. applies(trace): false if traces like this one never
 * have the view, which then has no tab. unavailable(page): the reason if the view does not apply.
 * draw(page): {node, picture, table, whole, after}, or a promise of it; `whole` returns a table for the file
 * that is too large to show, `after` is called when the node is on the page.
 * Controls are rebuilt when a choice in `depends` changes. Otherwise sliders stay, so that the user can drag
 * them, and follow their values.
 */
export function createPanel() {
  const [title, lead] = [element("h2"), element("p", { class: "lead" })];
  const part = (name) => element("div", { class: name });
  const [controls, tools, body] = [part("controls"), part("tools"), part("body")];
  const node = element("section", { class: "panel", id: "panel", role: "tabpanel" },
    element("header", {}, element("div", {}, title, lead), tools), controls, body);
  let built = "";
  let turn = 0;

  async function show(view, page) {
    const mine = ++turn;
    const { state } = page;
    const reason = view.unavailable?.(page);
    const key = JSON.stringify([view.name, Boolean(reason), ...view.depends.map((name) => state[name])]);
    if (key !== built) {
      built = key;
      node.setAttribute("aria-labelledby", `tab-${view.name}`);
      fill(title, titleOf(view, page.trace));
      fill(lead, worded(view.lead, page.trace));
      keepFocus(controls, () => fill(controls, reason ? null : view.controls?.(page)));
    } else if (controls.querySelector(".slider")) {
      keepFocus(controls, () => refresh(controls, element("div", {}, view.controls(page))));
    }
    const shown = reason ? { node: notice(reason) } : await attempt(view, page);
    if (mine !== turn) return; // a later choice is already being drawn
    keepFocus(tools, () => fill(tools, toolsFor(view, shown, page)));
    const name = `${view.name} ${Boolean(state.table && shown.table)}`;
    keepFocus(body, () => keepScroll(body, name, () => (
      fill(body, state.table && shown.table ? tableOf(shown.table) : shown.node))));
    shown.after?.();
    if (shown.error) throw shown.error;
  }

  /** Shows that a drawing failed, until the next one. */
  function showError({ message }) {
    body.append(notice(`This view could not be drawn: ${message}`));
  }

  return { node, show, showError };
}

/** A text of a view, which may depend on the trace. */
function worded(text, trace) {
  return typeof text === "function" ? text(trace) : text;
}

export function titleOf(view, trace) {
  return worded(view.title, trace);
}

/** The drawing of a view, or {error}, so that an old drawing does not stay under a new title. */
async function attempt(view, page) {
  try {
    return await view.draw(page);
  } catch (error) {
    return { error };
  }
}

/** Replaces all controls except sliders. */
function refresh(controls, now) {
  const fresh = [...now.children];
  [...controls.children].forEach((old, place) => {
    if (old.matches(".slider")) follow(old, fresh[place]);
    else old.replaceWith(fresh[place]);
  });
}

/** Rebuilds a part of the page, and restores its scroll positions if its name is unchanged. */
function keepScroll(root, name, rebuild) {
  const frames = () => [...root.querySelectorAll(".scroll, .table")];
  const places = root.dataset.name === name ? frames().map((one) => [one.scrollLeft, one.scrollTop]) : [];
  rebuild();
  root.dataset.name = name;
  frames().slice(0, places.length).forEach((one, place) => one.scrollTo(...places[place]));
}

function toolsFor({ name }, { picture, table, whole }, { state, set }) {
  const file = `seqwright-${name}`;
  const tool = (label, hint, action) => button(label, action, { title: hint, "data-key": label });
  return [
    table && toggle("Table", state.table, (on) => set({ table: on }), "Show the values as a table (x)"),
    picture && tool("PNG", "Save as PNG image", async () => save(`${file}.png`, await pngBlob(picture))),
    picture && tool("SVG", "Save as SVG image", () => save(`${file}.svg`, svgText(picture), "image/svg+xml")),
    table && tool("CSV", "Save as CSV", () => save(`${file}.csv`, csvOf(whole?.() ?? table), "text/csv")),
  ];
}

/** Rebuilds a part of the page, and restores the focus. */
export function keepFocus(root, rebuild) {
  const active = root.contains(document.activeElement) && document.activeElement;
  const key = active && active.closest("[data-key]")?.dataset.key;
  rebuild();
  if (!key) return;
  const found = root.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const target = found?.matches("[role=radiogroup]") ? found.querySelector("[aria-checked=true]") : found;
  target?.focus({ preventScroll: true });
}

/** Draws again when the width of a node changes; its height changes with its contents. */
export function followWidth(node, render) {
  let width = 0;
  new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width !== width) render();
    width = contentRect.width;
  }).observe(node);
}

/** Starts the page, unless the browser is too old. */
export function startIfAble(start) {
  if ("DecompressionStream" in window) start();
  else document.body.append(notice("This browser cannot unpack the data; use a browser from 2023 or later."));
}
