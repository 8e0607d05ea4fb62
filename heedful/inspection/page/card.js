/** The model's card: what it is, how it came about, and how good it is. */

import { h, number } from "./dom.js";
import { languageName, t } from "./i18n.js";
import { figure, table } from "./table.js";

const FIELDS = [
  "family",
  "parameters",
  "vocab_size",
  "encoder_layers",
  "decoder_layers",
  "num_heads",
  "d_model",
  "d_k",
  "d_v",
  "d_ff",
  "positions",
  "dropout",
  "label_smoothing",
  "steps",
  "batch_tokens",
  "warmup_steps",
  "beam_size",
  "alpha",
];
/** What is told in words, or drawn. */
const ELSEWHERE = ["source", "target", "learning_rate_factor", "cooldown_steps", "roles_from", "card"];

/** @param {any} model its sizes @param {any} card what lies in its folder, or null */
export function cardView(model, card) {
  const pair = [t("languages"), `${languageName(model.source)} → ${languageName(model.target)}`];
  const name = card ? [[t("card.name"), card.name]] : [];
  const rows = [...name, pair, ...fieldsOf(model).map((field) => [field, shown(model[field])])];
  return [
    part(t("card"), rows),
    card?.training ? [h("h4", { class: "spaced" }, t("card.training")), part(t("card.training"), trained(card))] : null,
    card?.evaluations.length ? [h("h4", { class: "spaced" }, t("card.scores")), scores(card)] : null,
  ];
}

/** What is known of the model; the settings that only its family has come last. */
function fieldsOf(model) {
  const own = Object.keys(model).filter((field) => !FIELDS.includes(field) && !ELSEWHERE.includes(field));
  return [...FIELDS.filter((field) => field in model), ...own];
}

const shown = (value) => (typeof value === "number" ? value.toLocaleString("en") : String(value));

function part(name, rows) {
  const grid = h(
    "dl",
    { class: "card-grid" },
    rows.map(([field, value]) => h("div", {}, h("dt", {}, field), h("dd", {}, value))),
  );
  return figure(name, grid, () => ({ name, columns: [t("setting"), t("value")], rows }));
}

function trained({ training, weights_sha256: weights }) {
  const { machine } = training;
  const files = (corpus) =>
    [...corpus.source, ...corpus.target]
      .map((file) => (file.lines === null ? file.name : `${file.name} (${shown(file.lines)})`))
      .join(", ");
  return [
    [t("card.date"), training.date.replace("T", " ").replace(/(:\d\d)(:\d\d)?([+]00:00|Z)$/, "$1 UTC")],
    [t("card.code"), [training.version, training.commit.slice(0, 12)].filter(Boolean).join(", ")],
    [t("card.machine"), machine.gpu ? `${machine.num_gpus} × ${machine.gpu}` : `${machine.processor}, ${machine.cores}`],
    [t("card.steps"), shown(training.steps)],
    [t("card.time"), duration(training.seconds)],
    [t("card.speed"), `${shown(Math.round(training.tokens_per_second))} / s`],
    ...(training.gpu_hours === null ? [] : [[t("card.gpu"), number(training.gpu_hours)]]),
    [t("card.seed"), `${training.seed}, ${training.precision}`],
    [t("card.averaged"), training.averaged_steps.map(shown).join(" + ")],
    [t("card.data"), files(training.training)],
    [t("card.weights"), `${weights.slice(0, 16)}…`],
  ];
}

/** Seconds as 1:02:03. */
function duration(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (value) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

function scores({ evaluations }) {
  const rows = evaluations.map(({ name, report, beam_size: beam, alpha, engine }) => [
    name,
    shown(report.num_lines),
    interval(report.bleu),
    interval(report.chrf),
    interval(report.ter),
    `${engine}, ${beam}, ${alpha}`,
    report.bleu.signature,
  ]);
  const columns = [t("card.set"), t("card.lines"), "BLEU", "chrF", "TER", t("card.search"), t("card.signature")];
  return h("div", { class: "captioned signed" }, table({ name: t("card.scores"), columns, rows }));
}

/** A score, and how far other sentences of the kind would move it. */
function interval({ value, interval: range }) {
  return range ? `${number(value, 1)} ± ${number(range.margin, 1)}` : number(value, 1);
}
