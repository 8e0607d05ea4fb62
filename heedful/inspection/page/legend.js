/** Which line is whose: its colour and its dash beside its name. */

import { headColour } from "./colour.js";
import { h, s } from "./dom.js";

/** `lines` are { name, colour, dash, width }; `colour` is a number, as of a head. */
export function legend(lines) {
  return h(
    "p",
    { class: "legend small" },
    lines.map((line) => h("span", {}, stroke(line), ` ${line.name}`)),
  );
}

function stroke({ colour, dash, width }) {
  return s(
    "svg",
    { width: 32, height: 8, "aria-hidden": "true" },
    s("line", {
      x1: 0,
      x2: 32,
      y1: 4,
      y2: 4,
      "stroke-width": width,
      "stroke-dasharray": dash,
      style: { stroke: headColour(colour) },
    }),
  );
}
