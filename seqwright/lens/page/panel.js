// The frame around a view: its title, its controls, its body, and the ways to read or save what it shows.

import { because, button, element, fill, toggle } from "./elements.js";
import { pngBlob, save, svgText } from "./saving.js";
import { csvOf, tableOf } from "./table.js";

/**
 * A frame that shows one view at a time. A view is {name, title, lead, depends, why, controls, draw}:
 *
 * why(page): a sentence where the view does not apply. draw(page): {node, picture, table, whole, after}, or a
 * promise of it; `whole` makes a table for the file that is too large to be shown, `after` is called when the
 * node is on the page.
 * Controls are built anew only when a choice in `depends` changes, so that a slider survives being dragged.
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
    const reason = view.why?.(page);
    const key = JSON.stringify([view.name, Boolean(reason), ...view.depends.map((name) => state[name])]);
    if (key !== built) {
      built = key;
      node.setAttribute("aria-labelledby", `tab-${view.name}`);
      fill(title, view.title);
      fill(lead, view.lead);
      keepFocus(controls, () => fill(controls, reason ? null : view.controls?.(page)));
    }
    const shown = reason ? { node: because(reason) } : await view.draw(page);
    if (mine !== turn) return; // a later choice is being drawn already
    keepFocus(tools, () => fill(tools, toolsFor(view, shown, page)));
    keepFocus(body, () => fill(body, state.table && shown.table ? tableOf(shown.table) : shown.node));
    shown.after?.();
  }

  return { node, show };
}

function toolsFor({ name }, { picture, table, whole }, { state, set }) {
  const file = `seqwright-${name}`;
  const tool = (label, hint, action) => button(label, action, { title: hint, "data-key": label });
  return [
    table && toggle("Table", state.table, (on) => set({ table: on }), "Every value as text (x)"),
    picture && tool("PNG", "Save as a picture", async () => save(`${file}.png`, await pngBlob(picture))),
    picture && tool("SVG", "Save as a drawing", () => save(`${file}.svg`, svgText(picture), "image/svg+xml")),
    table && tool("CSV", "Save as numbers", () => save(`${file}.csv`, csvOf(whole?.() ?? table), "text/csv")),
  ];
}

/** Rebuild a part of the page and give the focus back to the control that had it. */
export function keepFocus(root, rebuild) {
  const active = root.contains(document.activeElement) && document.activeElement;
  const key = active && active.closest("[data-key]")?.dataset.key;
  rebuild();
  if (!key) return;
  const found = root.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const target = found?.matches("[role=radiogroup]") ? found.querySelector("[aria-checked=true]") : found;
  target?.focus({ preventScroll: true });
}
