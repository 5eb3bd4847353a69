// Colours for colour-blind readers: ramps of lightness, a difference scale from blue to orange, and the eight
// colours of Okabe and Ito (2008, "Color Universal Design") for categories.

const RAMPS = {
  light: [[255, 255, 255], [222, 232, 246], [158, 190, 230], [84, 132, 200], [36, 76, 150], [12, 30, 84]],
  dark: [[23, 27, 34], [28, 52, 84], [34, 94, 142], [58, 146, 190], [130, 200, 216], [236, 248, 236]],
};
const DIFFERENCES = {
  light: [[8, 72, 148], [108, 164, 214], [255, 255, 255], [240, 168, 88], [176, 80, 8]],
  dark: [[96, 176, 244], [36, 88, 140], [23, 27, 34], [150, 84, 22], [255, 170, 72]],
};
const MIDDLE = 0.196; // luminance at which black and white text have equal contrast
export const ROLES = {
  alignment: ["#009e73", "attends to the source of the current token"],
  positional: ["#0072b2", "attends to a fixed offset, mostly a neighbour"],
  rare: ["#cc79a7", "attends to the rarest token"],
  syntactic: ["#e69f00", "follows a syntactic relation"],
  end: ["#8a8f98", "attends to the end token (often no function)"],
  begin: ["#56b4e9", "attends to the begin token (often no function)"],
  diffuse: ["#b3a400", "attends to all tokens"],
};

/** The colours of a theme: 256 [r, g, b] from 0 to the maximum, and 256 from negative to positive. */
export function palette(theme) {
  return { theme, ramp: between(RAMPS[theme]), difference: between(DIFFERENCES[theme]) };
}

function between(stops) {
  return Array.from({ length: 256 }, (_, index) => {
    const place = (index / 255) * (stops.length - 1);
    const left = Math.min(Math.floor(place), stops.length - 2);
    const right = stops[left + 1];
    return stops[left].map((part, channel) => Math.round(part + (right[channel] - part) * (place - left)));
  });
}

export function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}

/**
 * Black or white, whichever has more contrast to a colour. The contrast to black, (L + 0.05) / 0.058, is that
 * to white, 1.05 / (L + 0.05), where the relative luminance L is 0.196 (WCAG 2.2).
 */
export function inkOn(colour) {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > MIDDLE ? "#10151d" : "#ffffff";
}
