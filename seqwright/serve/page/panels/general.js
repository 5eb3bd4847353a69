// Any other task: a field for each column of its inputs, and the prediction as it comes.

import { button, element, fill } from "../lens/elements.js";
import { field, latest, statusLine } from "../parts.js";

export function panel(model, server) {
  const status = statusLine();
  const work = latest(status);
  const needed = model.roles.filter((role) => role.needed === "always");
  const roles = needed.length ? needed : model.roles;
  const fields = roles.map((role) => [role, field(role.name, predict, { placeholder: role.name, rows: 3 })]);
  const result = element("div", { class: "result", "aria-live": "polite" });

  const given = () => Object.fromEntries(fields.map(([role, node]) => [role.name, valueOf(role, node.value)]));

  function predict() {
    const values = given();
    if (Object.values(values).every((value) => value.length === 0)) return;
    work.run(async (signal) => {
      const [found] = await server.predict([values], {}, signal);
      const { output, source, reading, ...rest } = found;
      const shown = typeof output === "string" ? output : JSON.stringify(output, null, 1);
      status.say("");
      fill(result, element("p", { class: "output", dir: "auto" }, shown),
        element("pre", { class: "quiet" }, JSON.stringify(rest, null, 1)));
    });
  }

  const one = roles.length === 1 && roles[0].kind === "text";
  return element("section", { class: "panel" },
    element("header", {}, element("h2", {}, "Input"), element("div", { class: "tools" },
      model.traced ? button("Look inside", () => server.look(one ? fields[0][1].value : given())) : null)),
    fields.map(([role, node]) => element("div", { class: "stack" },
      roles.length > 1 ? element("p", { class: "label" }, role.name) : null, node)),
    status.node, result);
}

/** Numbers and times are separated by spaces, commas or lines. */
function valueOf({ kind }, text) {
  if (kind !== "number" && kind !== "time") return text;
  const parts = text.split(/[\s,;]+/).filter(Boolean);
  return kind === "number" ? parts.map(Number) : parts;
}
