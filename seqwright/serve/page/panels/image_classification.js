// An image, dropped or chosen, and the probability of each label.

import { button, element, fill } from "../lens/elements.js";
import { bars, latest, statusLine } from "../parts.js";

const SMALL = 96; // pixels: a smaller image is enlarged

export function panel(model, server) {
  const status = statusLine();
  const work = latest(status);
  const result = element("div", { class: "result", "aria-live": "polite" });
  const picture = element("img", {
    alt: "", hidden: true,
    onload: () => picture.classList.toggle("small", picture.naturalWidth < SMALL),
  });
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
        const image = { image: reader.result };
        const [found] = await server.predict([image], {}, signal);
        status.say(`${Math.round(performance.now() - began)} ms`);
        fill(result,
          element("header", { class: "answer" },
            element("h2", { class: "big", dir: "auto" }, found.label ?? found.output),
            found.unsure ? element("span", { class: "badge" }, "unsure") : null,
            element("div", { class: "tools" },
              model.traced ? button("Look inside", () => server.look(image)) : null)),
          found.probabilities ? bars(found.probabilities) : null);
      });
    });
    reader.readAsDataURL(file);
  }

  return element("section", { class: "panel" },
    element("header", {}, element("h2", {}, "Image")), zone, status.node, result);
}
