// The frame around a view: its title, its controls, its body, and the ways to read or save what it shows.

import { because, button, element, fill, follow, toggle } from "./elements.js";
import { pngBlob, save, svgText } from "./saving.js";
import { csvOf, tableOf } from "./table.js";

/**
 * A frame that shows one view at a time. A view is {name, title, lead, depends, why, controls, draw}:
 *
 * why(page): a sentence where the view does not apply. draw(page): {node, picture, table, whole, after}, or a
 * promise of it; `whole` makes a table for the file that is too large to be shown, `after` is called when the
 * node is on the page.
 * Controls are built anew when a choice in `depends` changes. Sliders stay otherwise, so that one survives
 * being dragged, and follow what they show.
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
    } else if (controls.querySelector(".slider")) {
      keepFocus(controls, () => refresh(controls, element("div", {}, view.controls(page))));
    }
    const shown = reason ? { node: because(reason) } : await attempt(view, page);
    if (mine !== turn) return; // a later choice is being drawn already
    keepFocus(tools, () => fill(tools, toolsFor(view, shown, page)));
    const name = `${view.name} ${Boolean(state.table && shown.table)}`;
    keepFocus(body, () => keepScroll(body, name, () => (
      fill(body, state.table && shown.table ? tableOf(shown.table) : shown.node))));
    shown.after?.();
    if (shown.error) throw shown.error;
  }

  /** Says that a drawing failed, until the next one. */
  function complain({ message }) {
    body.append(because(`This could not be drawn: ${message}`));
  }

  return { node, show, complain };
}

/** What a view draws, or the error: what was drawn before does not stay under the name of another view. */
async function attempt(view, page) {
  try {
    return await view.draw(page);
  } catch (error) {
    return { error };
  }
}

/** Controls as they would be built now, with sliders that stay. */
function refresh(controls, now) {
  const news = [...now.children];
  [...controls.children].forEach((old, place) => {
    if (old.matches(".slider")) follow(old, news[place]);
    else old.replaceWith(news[place]);
  });
}

/** Rebuild a part of the page, and scroll what is in it to where that was when it had the same name. */
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
