// What would have been said with another piece at a step: beside the output, and as a list to choose from.

import { diffed, news } from "./diff.js";
import { bold, button, element, paragraph } from "./elements.js";
import { moved, percent, short } from "./numbers.js";
import { branchName } from "./trace.js";

const END = "⟨end⟩"; // the symbol
const BEFORE = "this trace is older than branches are; look at the text again to have them";

/** The branches of a step, the likeliest first. */
export function branchesAt({ document }, t) {
  return (document.branches ?? []).filter((one) => one.step === t);
}

/** What a click on an alternative does: show its branch, or go back to what was said. */
export function turner({ state, set }, branch) {
  const name = branchName(branch);
  return () => set({ branch: state.branch === name ? "" : name, playing: "" });
}

/** The chosen branch under the output: what is shared in ink, what is not in colour; null without any. */
export function branchRow({ trace, state, set }) {
  const branch = trace.branch(state.branch);
  if (!branch) return null;
  const { output, steps } = trace.document;
  const characters = Array.from(branch.text);
  const part = (from, to) => characters.slice(from, to).join("");
  const rest = trace.characters.output.slice(output.pieces[branch.step].end).join("");
  const over = trace.document.symbols[branch.id] === END;
  const turn = part(branch.start, branch.end) || trace.symbol(branch.id); // a byte may have no text
  const text = element("p", { class: "tokens branch", dir: "auto", "aria-label": "branch" },
    part(0, branch.start), element("ins", { class: "turn" }, turn),
    continued(rest, part(branch.end)),
    branch.finish_reason === "length" && "…");
  const [there, here] = [trace.symbol(steps[branch.step].id), trace.symbol(branch.id)];
  const back = button("Back to the output", () => set({ branch: "" }), {
    class: "link", title: "Escape", "data-key": "back",
  });
  const facts = paragraph("quiet",
    `Step ${branch.step + 1} says `, bold(here, "now"), " instead of ", bold(there),
    over ? ", and the output is over. " : ", and greedy search goes on. ",
    `Log p ${moved(output.log_prob, branch.log_prob)}, `,
    `score ${moved(output.score, branch.score)}. `, back);
  return element("div", { role: "status" }, text, facts);
}

/** A text after another, what the other does not have underlined, the white space before it kept. */
function continued(before, after) {
  return [after.match(/^\s*/)[0], news(before.trim(), after.trim())];
}

/** The alternatives of the current step with what would have followed. */
export function branchList(page) {
  const { trace, state } = page;
  const found = branchesAt(trace, state.t);
  const none = trace.document.branches === undefined ? BEFORE : "there is no other piece";
  return element("aside", { class: "side wide", "aria-label": "Branches" },
    element("h3", {}, "Had it said something else here"),
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
  ], turner(page, branch), {
    class: "branch", "aria-pressed": state.branch === name, "data-key": `branch ${name}`,
  });
}
