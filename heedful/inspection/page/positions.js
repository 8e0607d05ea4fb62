/** The positional encoding: all of it, two positions compared, single dimensions, and similarity by distance. */

import { at, tensor } from "./codec.js";
import { diverging, heat, ramps } from "./colour.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";
import { linePlot } from "./plot.js";
import { figure } from "./table.js";

/** @param {{n: number, d: number, table: any}} data */
export function positionsView(data) {
  const whole = tensor(data.table);
  const dimensions = [...new Set([0, 10, 300, 511].map((which) => Math.min(which, data.d - 1)))];
  return h(
    "div",
    { class: "positions" },
    picture(data, whole),
    h(
      "div",
      { class: "halves" },
      pair(data, whole, [3, 4]),
      pair(data, whole, [3, 500]),
      dimensions.map((which) => dimension(data, whole, which)),
      similarity(data, whole),
    ),
  );
}

function picture({ n, d }, whole) {
  const ramp = ramps();
  const canvas = heat(
    h("canvas", { class: "heat", role: "img", "aria-label": t("positions") }),
    whole.values,
    n,
    d,
    (value) => diverging(value, ramp),
  );
  const shown = Math.min(d, 16);
  const data = () => ({
    name: t("positions"),
    columns: [t("position"), ...Array.from({ length: shown }, (_, i) => String(i))],
    rows: [...Array(n).keys()].map((row) => [
      row,
      ...[...at(whole, row).values].slice(0, shown).map((value) => value.toFixed(3)),
    ]),
  });
  return figure(
    "positions",
    h(
      "div",
      { class: "plot-box" },
      h("h4", {}, t("positions"), h("span", { class: "muted small" }, ` ${t("positions.axes", { n, d })}`)),
      canvas,
      scaleBar(ramp),
    ),
    data,
    "PE(pos, 2i) = sin(pos / 10000^(2i/d)),  PE(pos, 2i+1) = cos(…)",
  );
}

function scaleBar(ramp) {
  const values = Float32Array.from({ length: 65 }, (_, i) => i / 32 - 1);
  return h(
    "div",
    { class: "scale small" },
    "−1",
    heat(h("canvas", { "aria-hidden": "true" }), values, 1, 65, (value) => diverging(value, ramp)),
    "+1",
  );
}

/** Neighbours differ in the first dimensions only; far ones everywhere. The sines alone, so that the curve is smooth. */
function pair({ n, d }, whole, positions) {
  const chosen = [...new Set(positions.map((position) => Math.min(position, n - 1)))];
  const sines = (position) =>
    [...Array(Math.ceil(d / 2)).keys()].map(
      (i) => /** @type {[number, number]} */ ([2 * i, whole.values[position * d + 2 * i]]),
    );
  const name = t("pairs", { a: chosen[0], b: chosen[1] ?? chosen[0] });
  return linePlot({
    name,
    x: t("dimension"),
    y: t("pairs.note"),
    low: -1,
    high: 1,
    series: chosen.map((position) => ({ name: `pos ${position}`, points: sines(position) })),
  });
}

/** One dimension over positions; of a quick wave twenty turns are enough. */
function dimension({ n, d }, whole, which) {
  const turn = 2 * Math.PI * 10000 ** ((2 * Math.floor(which / 2)) / d);
  const shown = Math.min(n, Math.max(16, Math.ceil(20 * turn)));
  const points = [...Array(shown).keys()].map(
    (position) => /** @type {[number, number]} */ ([position, whole.values[position * d + which]]),
  );
  return linePlot({
    name: t("dimensions", { which }),
    x: t("position"),
    y: t("dimensions.note", { turn: turn < 1000 ? turn.toFixed(1) : Math.round(turn).toLocaleString("en") }),
    low: -1,
    high: 1,
    series: [{ name: `dim ${which}`, points }],
  });
}

/**
 * PE(0) · PE(k), divided by its largest value: the same between any two positions that lie k apart. (Of an odd number of
 * dimensions the last one, a sine without its cosine, is left out: with it neither would hold.)
 */
function similarity({ n, d }, whole) {
  const pairs = Math.floor(d / 2);
  const first = at(whole, 0).values.slice(0, 2 * pairs);
  const points = [...Array(n).keys()].map(
    (k) =>
      /** @type {[number, number]} */ ([
        k,
        first.reduce((sum, value, i) => sum + value * at(whole, k).values[i], 0) / (pairs || 1),
      ]),
  );
  return linePlot({ name: t("similarity"), x: t("distance"), y: "", series: [{ name: "PE(p)·PE(p+k)", points }] });
}
