/** Training curves: loss, perplexity, BLEU, learning rate. */

import { h } from "./dom.js";
import { t } from "./i18n.js";
import { linePlot } from "./plot.js";

/** @param {{step: any[], validation: any[]}} metrics */
export function curvesView(metrics) {
  const points = (records, field) =>
    records
      .filter((each) => each[field] !== null && each[field] !== undefined)
      .map((each) => /** @type {[number, number]} */ ([each.step, each[field]]));
  const both = (field) =>
    [
      { name: t("training"), points: points(metrics.step, field) },
      { name: t("validation"), points: points(metrics.validation, field) },
    ].filter((each) => each.points.length);
  const logs = (series) => series.map((each) => ({ ...each, points: each.points.map(([x, y]) => [x, Math.log10(y)]) }));
  return h(
    "div",
    { class: "halves" },
    linePlot({ name: t("loss"), x: t("step"), y: t("loss.note"), series: both("loss") }),
    linePlot({
      name: t("perplexity"),
      x: t("step"),
      y: "log₁₀",
      series: logs(both("perplexity")),
      told: (value) => 10 ** value,
    }),
    linePlot({
      name: "BLEU",
      x: t("step"),
      y: t("validation"),
      low: 0,
      series: [{ name: "BLEU", points: points(metrics.validation, "bleu") }],
    }),
    linePlot({
      name: t("rate"),
      x: t("step"),
      y: "",
      low: 0,
      series: [{ name: t("rate"), points: points(metrics.step, "learning_rate") }],
    }),
  );
}

/** §5.3: the rate that the settings ask for, where no run is at hand. */
export function scheduleView(model) {
  const { d_model: d, warmup_steps: warmup, learning_rate_factor: factor, steps, cooldown_steps: cooldown } = model;
  const last = cooldown ? steps : Math.max(steps, 2 * warmup);
  const points = Array.from({ length: 200 }, (_, i) => {
    const step = Math.max(1, Math.round(((i + 1) * last) / 200));
    const left = cooldown ? Math.min(1, (steps + 1 - step) / cooldown) : 1;
    return [step, left * factor * d ** -0.5 * Math.min(step ** -0.5, step * warmup ** -1.5)];
  });
  return h(
    "div",
    { class: "halves" },
    linePlot({
      name: t("rate"),
      x: t("step"),
      y: t(cooldown ? "rate.cooled" : "rate.note", { warmup, cooldown }),
      low: 0,
      series: [{ name: t("rate"), points }],
    }),
  );
}
