// Save pictures and tables as files.

const LARGEST = 32_767; // pixels per side that every browser supports
const COLOURED = ["fill", "stroke", "style", "stop-color"];
const UNWRITABLE = /[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu; // in XML 1.0, 2.2
const SCALE = 2; // pixels of a PNG per pixel of the page: sharp on paper and projectors

export function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A picture as a standalone SVG, with the colour variables of the page replaced. */
export function svgText(picture) {
  const style = getComputedStyle(document.body);
  const copy = picture.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("font-family", style.fontFamily);
  copy.setAttribute("style", "background:var(--panel)");
  const plain = (text) => (
    text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim() || "currentColor"));
  for (const node of [copy, ...copy.querySelectorAll("*")]) {
    for (const name of COLOURED.filter((one) => node.hasAttribute(one))) {
      node.setAttribute(name, plain(node.getAttribute(name)));
    }
  }
  return new XMLSerializer().serializeToString(copy).replace(UNWRITABLE, "\ufffd");
}

export async function pngBlob(picture) {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([svgText(picture)], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = document.createElement("canvas");
  const size = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
  const scale = Math.min(SCALE, LARGEST / Math.max(...size));
  [canvas.width, canvas.height] = size.map((side) => Math.floor(scale * side));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
