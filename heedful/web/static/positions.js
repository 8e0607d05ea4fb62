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
  return h("div", { class: "positions" }, picture(data, whole), h("div", { class: "halves" }, pairs(data, whole), dimensions(data, whole), similarity(data, whole)));
}

function picture({ n, d }, whole) {
  const ramp = ramps();
  const canvas = heat(h("canvas", { class: "heat", role: "img", "aria-label": t("positions") }), whole.values, n, d, (value) => diverging(value, ramp));
  const shown = Math.min(d, 16);
  const data = () => ({ name: t("positions"), columns: [t("position"), ...Array.from({ length: shown }, (_, i) => String(i))], rows: [...Array(n).keys()].map((row) => [row, ...[...at(whole, row).values].slice(0, shown).map((value) => value.toFixed(3))]) });
  return figure(h("div", { class: "plot-box" }, h("h4", {}, t("positions"), h("span", { class: "muted small" }, ` ${t("positions.axes", { n, d })}`)), canvas, scaleBar(ramp)), data, "PE(pos, 2i) = sin(pos / 10000^(2i/d)),  PE(pos, 2i+1) = cos(…)");
}

function scaleBar(ramp) {
  const values = Float32Array.from({ length: 65 }, (_, i) => i / 32 - 1);
  return h("div", { class: "scale small" }, "−1", heat(h("canvas", { "aria-hidden": "true" }), values, 1, 65, (value) => diverging(value, ramp)), "+1");
}

/** Neighbours differ in the first dimensions only; far ones everywhere. */
function pairs({ n, d }, whole) {
  const positions = [3, 4, 500].map((position) => Math.min(position, n - 1));
  const series = [...new Set(positions)].map((position) => ({ name: `pos ${position}`, points: [...at(whole, position).values].map((value, i) => /** @type {[number, number]} */ ([i, value])) }));
  return linePlot({ name: t("pairs"), x: t("dimension"), y: `d = ${d}`, series });
}

function dimensions({ n, d }, whole) {
  const chosen = [...new Set([0, 10, 300, 511].map((dimension) => Math.min(dimension, d - 1)))];
  const series = chosen.map((dimension) => ({ name: `dim ${dimension}`, points: [...Array(n).keys()].map((position) => /** @type {[number, number]} */ ([position, whole.values[position * d + dimension]])) }));
  return linePlot({ name: t("dimensions"), x: t("position"), y: "", series });
}

/** PE(0) · PE(k), divided by its largest value: the same between any two positions that lie k apart. */
function similarity({ n, d }, whole) {
  const first = at(whole, 0).values;
  const points = [...Array(n).keys()].map((k) => /** @type {[number, number]} */ ([k, (2 / d) * at(whole, k).values.reduce((sum, value, i) => sum + value * first[i], 0)]));
  return linePlot({ name: t("similarity"), x: t("distance"), y: "", series: [{ name: "PE(p)·PE(p+k)", points }] });
}
