// The page: the models of this server, and the panels of the chosen one.
//
// A panel is a file in panels/ with the name of a task. It exports `panel(model, server)`, which returns an
// element. The server says which one a model has: a task without a file has the general panel.

import { button, element, fill, menu, notice } from "./lens/elements.js";
import { createServer, Refused } from "./server.js";
import { keep, recall } from "./memory.js";

const TITLES = {
  text_to_text: "Translate", language_modeling: "Write", conversation: "Chat", text_classification: "Classify",
  token_classification: "Tag", image_classification: "Classify", masked_language_modeling: "Fill blanks",
  forecasting: "Forecast", image_captioning: "Describe",
};
const MORE = { language_modeling: ["conversation"] }; // further panels of a task

const server = createServer(askForKey);
const top = element("header", { class: "top" });
const tabs = element("nav", { class: "tabs", "aria-label": "Views" });
const main = element("main");
const footer = element("footer");
const system = matchMedia("(prefers-color-scheme: dark)");

document.body.append(top, tabs, main, footer);
system.addEventListener("change", applyTheme);
addEventListener("hashchange", show);
applyTheme();
start();

async function start() {
  try {
    server.models = (await server.get("v1/models")).data;
  } catch (error) {
    fill(main, notice(error instanceof Refused ? error.message : "The server does not answer."));
    return;
  }
  await show();
}

/** The model and the panel that the address names, or the first ones. */
function chosen() {
  const [name, view] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const model = server.models.find(({ id }) => id === name) ?? server.models[0];
  const views = [model.task, ...(MORE[model.task] ?? [])];
  return { model, views, view: views.includes(view) ? view : views[0] };
}

async function show() {
  const { model, views, view } = chosen();
  const name = ({ id }) => [id, id];
  const pick = server.models.length > 1
    ? menu("Model", server.models.map(name), model.id, (id) => { location.hash = encodeURIComponent(id); })
    : element("span", { class: "quiet" }, model.id);
  const dark = document.documentElement.dataset.theme === "dark";
  const turn = button(dark ? "Light" : "Dark", () => {
    keep("theme", dark ? "light" : "dark");
    applyTheme();
    show();
  }, { title: "Colours of the page" });
  fill(top, element("h1", {}, "Seqwright"), element("div", { class: "tools" }, pick, turn));
  fill(tabs, views.length < 2 ? null : views.map((each) => element("button", {
    type: "button", "aria-selected": each === view, role: "tab",
    onclick: () => { location.hash = `${encodeURIComponent(model.id)}/${each}`; },
  }, TITLES[each] ?? each)));
  document.title = `${model.id} · Seqwright`;
  const facts = [model.task.replaceAll("_", " "), `${model.parameters.toLocaleString("en")} parameters`];
  fill(footer, [...facts, model.summary].join(" · "));
  const place = `${model.id}/${view}`;
  if (main.dataset.place === place) return; // only the colours have changed
  main.dataset.place = place;
  const { panel } = await import(`./panels/${view === model.task ? model.panel : view}.js`);
  fill(main, panel(model, server.of(model)));
  document.body.dataset.ready = place;
}

function applyTheme() {
  document.documentElement.dataset.theme = recall("theme") ?? (system.matches ? "dark" : "light");
}

/** Ask for the key of the server; resolves with what the reader enters. */
function askForKey(message) {
  return new Promise((resolve) => {
    const field = element("input", { type: "password", "aria-label": "Key", autocomplete: "current-password" });
    const form = element("form", {
      class: "panel key",
      onsubmit: (event) => { event.preventDefault(); resolve(field.value); },
    }, element("h2", {}, "This server needs a key"), element("p", { class: "quiet" }, message),
    element("div", { class: "controls" }, field, element("button", { class: "primary" }, "Continue")));
    fill(main, form);
    field.focus();
  });
}
