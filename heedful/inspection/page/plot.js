/** Curves with axes: the little of a plotting library that this page needs. */

import { DASHES, headColour } from "./colour.js";
import { h, number, s } from "./dom.js";
import { legend } from "./legend.js";
import { figure } from "./table.js";

/** Narrow screens get a narrow drawing, so that letters keep their size. */
const measures = () => (innerWidth < 480 ? { WIDTH: 320, HEIGHT: 220 } : { WIDTH: 560, HEIGHT: 240 });
const MARGIN = { left: 56, right: 16, top: 16, bottom: 40 };

/** Round numbers between two, five or fewer of them. */
export function ticks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step)
    found.push(Math.abs(value) < step / 1e6 ? 0 : value);
  return found;
}

/** A number on an axis. */
export function tick(value) {
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(0).replace("-", "−");
  if (Math.abs(value) >= 10000) return `${number(value / 1000, 0)}k`;
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

/**
 * @param {{name: string, x: string, y: string, series: {name: string, points: number[][]}[], low?: number, high?: number, told?: (value: number) => number}} plot
 * `told` is what the table says of a height: of a logarithm the number itself
 */
export function linePlot({ name, x, y, series, low = undefined, high = undefined, told = (value) => value }) {
  const points = series.flatMap((each) => each.points).filter(([, value]) => Number.isFinite(value));
  if (!points.length) return h("p", { class: "muted" }, `${name}: —`);
  const { WIDTH, HEIGHT } = measures();
  const [xs, ys] = [points.map(([value]) => value), points.map(([, value]) => value)];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const bottom = low ?? Math.min(...ys);
  const top = high ?? (Math.max(...ys) === bottom ? bottom + 1 : Math.max(...ys));
  const px = (value) => MARGIN.left + ((value - left) / (right - left || 1)) * (WIDTH - MARGIN.left - MARGIN.right);
  const py = (value) =>
    HEIGHT - MARGIN.bottom - ((value - bottom) / (top - bottom)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const rules = ticks(bottom, top).map((value) =>
    s(
      "g",
      {},
      s("line", { class: "rule", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: py(value), y2: py(value) }),
      s("text", { class: "tick", x: MARGIN.left - 8, y: py(value), dy: "0.35em", "text-anchor": "end" }, tick(value)),
    ),
  );
  const whole = xs.every(Number.isInteger);
  const below = ticks(left, right)
    .filter((value) => !whole || Number.isInteger(value))
    .map((value) =>
      s("text", { class: "tick", x: px(value), y: HEIGHT - MARGIN.bottom + 18, "text-anchor": "middle" }, tick(value)),
    );
  const curves = series.map((each, i) => {
    const placed = each.points.filter(([, value]) => Number.isFinite(value)).map(([a, b]) => [px(a), py(b)]);
    return curve(placed, i);
  });
  const drawing = s(
    "svg",
    { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": name },
    rules,
    below,
    s("text", { class: "axis", x: WIDTH - MARGIN.right, y: HEIGHT - 4, "text-anchor": "end" }, x),
    curves,
  );
  const plot = h(
    "div",
    { class: "plot-box" },
    h("h4", {}, name, h("span", { class: "muted small" }, y ? ` ${y}` : "")),
    drawing,
    series.length > 1 ? legend(series.map(legendEntry)) : null,
  );
  return figure(name, plot, () => tableOf(name, x, series, told));
}

/** A line through what was placed; a single point, which is no line, as a dot. */
function curve(placed, i) {
  if (placed.length === 1) {
    const [[cx, cy]] = placed;
    return s("circle", { class: "dot", cx, cy, r: 4, style: { fill: headColour(i) } });
  }
  return s("polyline", {
    class: "curve",
    points: placed.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" "),
    "stroke-dasharray": DASHES[i % 8],
    style: { stroke: headColour(i) },
  });
}

const legendEntry = ({ name }, i) => ({ name, colour: i, dash: DASHES[i % 8], width: 2 });

function tableOf(name, x, series, told) {
  const rows = new Map();
  series.forEach((each, i) =>
    each.points.forEach(([a, b]) => {
      if (!rows.has(a)) rows.set(a, Array(series.length).fill(""));
      rows.get(a)[i] = b === null ? "" : Number(told(b).toPrecision(5));
    }),
  );
  return {
    name,
    columns: [x, ...series.map((each) => each.name)],
    rows: [...rows].sort((a, b) => a[0] - b[0]).map(([a, values]) => [a, ...values]),
  };
}
