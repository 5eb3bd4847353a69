// Branches: the output with another token at a step, next to the output and as a list.

import { additions, diffed } from "./diff.js";
import { bold, button, element, paragraph } from "./elements.js";
import { moved, percent, short } from "./numbers.js";
import { branchName } from "./trace.js";

const END = "⟨end⟩"; // the symbol
const BEFORE = "this trace was made by a version without branches; make it again to see them";

/** The branches of a step, the most probable first. */
export function branchesAt({ document }, t) {
  return (document.branches ?? []).filter((one) => one.step === t);
}

/** The handler of a click on an alternative: shows or closes its branch. */
export function branchToggle({ state, set }, branch) {
  const name = branchName(branch);
  return () => set({ branch: state.branch === name ? "" : name, playing: "" });
}

/** The chosen branch under the output, with the differences in colour; null if none is chosen. */
export function branchRow({ trace, state, set }) {
  const branch = trace.branch(state.branch);
  if (!branch) return null;
  const { output, steps } = trace.document;
  const characters = Array.from(branch.text);
  const part = (from, to) => characters.slice(from, to).join("");
  const rest = trace.characters.output.slice(output.pieces[branch.step].end).join("");
  const over = trace.document.symbols[branch.id] === END;
  const token = part(branch.start, branch.end) || trace.symbol(branch.id); // a byte may have no text
  const text = element("p", { class: "tokens branch", dir: "auto", "aria-label": "branch" },
    part(0, branch.start), element("ins", { class: "turn" }, token),
    continued(rest, part(branch.end)),
    branch.finish_reason === "length" && "…");
  const [there, here] = [trace.symbol(steps[branch.step].id), trace.symbol(branch.id)];
  const back = button("Close the branch", () => set({ branch: "" }), {
    class: "link", title: "Close (Esc)", "data-key": "back",
  });
  const facts = paragraph("quiet",
    `Step ${branch.step + 1}: `, bold(here, "now"), " instead of ", bold(there),
    over ? ", which ends the output. " : ", continued by greedy search. ",
    `Log p ${moved(output.log_prob, branch.log_prob)}, `,
    `score ${moved(output.score, branch.score)}. `, back);
  return element("div", { role: "status" }, text, facts);
}

/** The continuation of the branch, with additions underlined and leading white space kept. */
function continued(before, after) {
  return [after.match(/^\s*/)[0], additions(before.trim(), after.trim())];
}

/** The alternatives of the current step with their outputs. */
export function branchList(page) {
  const { trace, state } = page;
  const found = branchesAt(trace, state.t);
  const none = trace.document.branches === undefined ? BEFORE : "this step has no alternatives";
  return element("aside", { class: "side wide", "aria-label": "Branches" },
    element("h3", {}, "Outputs with another token at this step"),
    found.length
      ? element("ul", { class: "branches" }, found.map((one) => element("li", {}, branchButton(page, one))))
      : paragraph("quiet", trace.absent("branches", none)));
}

function branchButton(page, branch) {
  const { trace, state } = page;
  const name = branchName(branch);
  const [, logProb] = trace.document.steps[branch.step].top.find(([id]) => id === branch.id);
  const cut = branch.finish_reason === "length" && " …";
  return button([
    element("span", { class: "head" }, bold(trace.symbol(branch.id)),
      element("span", { class: "number" }, percent(Math.exp(logProb)))),
    element("span", { class: "text", dir: "auto" }, diffed(trace.document.output.text, branch.text), cut),
    element("span", { class: "quiet" }, `log p ${short(branch.log_prob)} · score ${short(branch.score)}`),
  ], branchToggle(page, branch), {
    class: "branch", "aria-pressed": state.branch === name, "data-key": `branch ${name}`,
  });
}
