// An image, dropped or chosen, and the probability of each label.

import { button, element, fill } from "../lens/elements.js";
import { bars, latest, statusLine } from "../parts.js";

const MOST = 20; // labels that are shown

export function panel(model, server) {
  const status = statusLine();
  const work = latest(status);
  const result = element("div", { class: "result", "aria-live": "polite" });
  const picture = element("img", { alt: "", hidden: true });
  const chooser = element("input", {
    type: "file", accept: "image/*", hidden: true, onchange: () => classify(chooser.files[0]),
  });
  const zone = element("div", {
    class: "drop",
    ondragover: (event) => { event.preventDefault(); zone.classList.add("over"); },
    ondragleave: () => zone.classList.remove("over"),
    ondrop: (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      classify(event.dataTransfer.files[0]);
    },
  }, picture, element("p", { class: "quiet" }, "Drop an image here, or ",
    button("choose a file", () => chooser.click(), { class: "link" })), chooser);

  function classify(file) {
    if (!file) return;
    const reader = new FileReader();
    reader.addEventListener("load", () => {
      picture.src = reader.result;
      picture.hidden = false;
      work.run(async (signal) => {
        const began = performance.now();
        const [found] = await server.predict([{ image: reader.result }], {}, signal);
        status.say(`${Math.round(performance.now() - began)} ms`);
        fill(result, element("h2", { class: "big" }, found.label ?? found.output),
          found.probabilities ? bars(Object.entries(found.probabilities).slice(0, MOST)) : null);
      });
    });
    reader.readAsDataURL(file);
  }

  return element("section", { class: "panel" },
    element("header", {}, element("h2", {}, "Image")), zone, status.node, result);
}
