// All views, in the order of their tabs. A page has those that apply to one of its traces.

import { alignment } from "./alignment.js";
import { beam } from "./beam.js";
import { compare } from "./compare.js";
import { decision } from "./decision.js";
import { heads } from "./heads.js";
import { learning } from "./learning.js";
import { nearest } from "./nearest.js";
import { next } from "./next.js";
import { number } from "./number.js";
import { patches } from "./patches.js";
import { positions } from "./positions.js";
import { regions } from "./regions.js";
import { saliency } from "./saliency.js";
import { sentences } from "./sentences.js";
import { surprise } from "./surprise.js";
import { turns } from "./turns.js";
import { why } from "./why.js";

const VIEWS = [
  regions, patches, saliency, surprise, nearest, turns, decision, sentences, alignment, heads, next,
  positions,
  beam, why, number, compare, learning,
];

export function viewsOf(traces) {
  return VIEWS.filter(({ applies }) => !applies || traces.some(applies));
}
