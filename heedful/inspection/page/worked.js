/** Attention worked through for one word and one head, with the model's own numbers; and how far its vector moved. */

import { embedded, fetchTrace } from "./api.js";
import { at, tensor } from "./codec.js";
import { diverging, heat, ramps } from "./colour.js";
import { h, number, percent, readable, show } from "./dom.js";
import { t } from "./i18n.js";
import { linePlot } from "./plot.js";
import { nothingYet } from "./sentences.js";
import { get, set, subscribe } from "./store.js";
import { table } from "./table.js";
import { headsOf, layerOf, selectionOf, shownKind, sides, sizes, vectorsOf } from "./weights.js";
import { spaced } from "./words.js";

/** @type {any} */ let place;
/** A word kept to be compared with one of another sentence. @type {any} */ let kept = null;

/** Draw the calculation into its place. */
export function workedRegion(where) {
  place = where;
  subscribe(["trace", "whole", "kind", "l", "h", "t", "s", "n", "opened", "scheme"], draw);
  draw();
}

/** The piece that looks: the first of the chosen word. */
function chosenRow(kind) {
  const [side] = selectionOf(kind, "row", 0);
  const word = Math.max(0, get()[side]);
  return Math.max(0, sides(kind).rows.word_of_piece.indexOf(word));
}

function draw() {
  const { trace } = get();
  const kind = shownKind();
  place.closest("details").hidden = Boolean(trace) && !trace.worked.includes(kind);
  if (!trace) return show(place, h("p", { class: "muted" }, nothingYet()));
  if (!trace.worked.includes(kind)) return show(place);
  const layer = layerOf(kind);
  const vectors = vectorsOf(kind)?.kinds[kind];
  if (!vectors && embedded) return show(place, h("p", { class: "muted" }, t("worked.best")));
  if (!vectors?.layers.includes(layer))
    return (show(place, h("p", { class: "muted" }, t("fetching"))), fetchVectors(layer));
  const numbers = work(kind, layer, headsOf(kind)[0], chosenRow(kind));
  show(place, picker(kind, numbers), steps(numbers), movement(kind, numbers.row));
}

let asked = "";

async function fetchVectors(layer) {
  const { trace, prefix } = get();
  const kind = shownKind();
  const n = kind === "encoder" ? 0 : get().n;
  const languages = { source: trace.source.language, target: trace.target.language };
  const body = { q: trace.source.text, ...languages, prefix, layers: [layer], hypothesis: n };
  if (embedded || asked === JSON.stringify(body) || !place.closest("details")?.open) return;
  asked = JSON.stringify(body);
  const found = await fetchTrace(body).catch(() => null);
  if (!found) return (asked = "");
  if (n > 0) trace.hypotheses[n].vectors = found.vectors;
  set({ trace: n > 0 ? { ...trace } : { ...trace, vectors: found.vectors } });
}

/** How wide the queries, keys (q, k) or values (v) of one head are. */
const widthOf = (kind, name) => tensor(vectorsOf(kind).kinds[kind][name]).shape[2] / sizes(kind).heads;

/** All numbers of equation 1 for one row of one head. */
export function work(kind, layer, head, row) {
  const [dK, dV] = [widthOf(kind, "k"), widthOf(kind, "v")];
  const vectors = vectorsOf(kind);
  const here = vectors.kinds[kind];
  const i = here.layers.indexOf(layer);
  const take = (name, width, index) => {
    const all = at(tensor(here[name]), i, index).values;
    return all.subarray(head * width, (head + 1) * width);
  };
  const { columns } = sides(kind);
  const query = take("q", dK, row);
  const masked = (j) => kind === "decoder" && j > row;
  const dot = columns.pieces.map((_, j) =>
    take("k", dK, j).reduce((sum, value, d) => sum + value * query[d], 0),
  );
  const scaled = dot.map((value, j) => (masked(j) ? -Infinity : value / Math.sqrt(dK)));
  const largest = Math.max(...scaled);
  const powers = scaled.map((value) => Math.exp(value - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  const weights = powers.map((value) => value / sum);
  const output = weighted(weights, (j) => take("v", dV, j), dV);
  const before =
    kind === "cross"
      ? at(tensor(vectors.kinds.decoder.out), i, row).values
      : at(tensor(vectors.states[kind]), layer, row).values;
  const sub = at(tensor(here.sub), i, row).values;
  return {
    kind,
    layer,
    head,
    row,
    dot,
    scaled,
    weights,
    output,
    before,
    sub,
    summed: before.map((value, d) => value + sub[d]),
    out: at(tensor(here.out), i, row).values,
  };
}

function weighted(weights, vectorOf, width) {
  const total = new Float32Array(width);
  weights.forEach((weight, j) => vectorOf(j).forEach((value, d) => (total[d] += weight * value)));
  return total;
}

function picker(kind, { head, row }) {
  const { rows } = sides(kind);
  const [side] = selectionOf(kind, "row", 0);
  const words = h(
    "select",
    { "aria-label": t("word"), onchange: () => set({ [side]: Number(words.value) }) },
    rows.words.map((word, i) => h("option", { value: i, selected: rows.word_of_piece[row] === i }, word)),
  );
  const heads = h(
    "select",
    { "aria-label": t("head.column"), onchange: () => set({ h: [Number(heads.value)] }) },
    [...Array(sizes(kind).heads).keys()].map((i) =>
      h("option", { value: i, selected: i === head }, t("head", { n: i + 1 })),
    ),
  );
  const keep = h(
    "button",
    {
      type: "button",
      onclick: () => {
        kept = memory(kind, row);
        draw();
      },
    },
    t("keep"),
  );
  return h(
    "div",
    { class: "bar" },
    h("span", { class: "muted small" }, `${t(`kind.${kind}`)}, ${t("layer", { n: layerOf(kind) + 1 })}`),
    words,
    heads,
    keep,
  );
}

function steps(numbers) {
  const { rows, columns } = sides(numbers.kind);
  const dK = widthOf(numbers.kind, "k");
  const data = columns.pieces.map((piece, j) => [
    readable(piece),
    number(numbers.dot[j]),
    Number.isFinite(numbers.scaled[j]) ? number(numbers.scaled[j]) : "−∞",
    percent(numbers.weights[j]),
  ]);
  const mean = numbers.summed.reduce((a, b) => a + b, 0) / numbers.summed.length;
  const deviation = Math.sqrt(numbers.summed.reduce((a, b) => a + (b - mean) ** 2, 0) / numbers.summed.length);
  const word = readable(rows.pieces[numbers.row]);
  return h(
    "ol",
    { class: "steps" },
    h(
      "li",
      {},
      h("p", {}, t("worked.dot", { word, d: dK })),
      table({
        name: t("worked.table"),
        columns: [t("piece"), "q·k", `÷ √${dK}${numbers.kind === "decoder" ? t("worked.mask") : ""}`, "softmax"],
        rows: data,
      }),
    ),
    h("li", {}, h("p", {}, t("worked.sum")), strip(numbers.output)),
    h("li", {}, h("p", {}, t("worked.output", { heads: sizes(numbers.kind).heads })), strip(numbers.sub)),
    h("li", {}, h("p", {}, t("worked.residual", { word })), strip(numbers.before), strip(numbers.summed)),
    h(
      "li",
      {},
      h("p", {}, t("worked.norm", { mean: number(mean, 3), deviation: number(deviation, 3) })),
      strip(numbers.out),
    ),
  );
}

/** A vector as a strip of colours, and its first numbers. */
function strip(values) {
  const ramp = ramps();
  const most = Math.max(...[...values].map(Math.abs)) || 1;
  const first = [...values]
    .slice(0, 6)
    .map((value) => number(value))
    .join("  ");
  return h(
    "div",
    { class: "strip" },
    heat(h("canvas", { role: "img", "aria-label": first }), values, 1, values.length, (value) =>
      diverging(value / most, ramp),
    ),
    h("code", { class: "small" }, `${first} …  (${values.length})`),
  );
}

const stackOf = (kind) => (kind === "encoder" ? "encoder" : "decoder");

/** The vectors of a word before and after each layer. */
function memory(kind, row) {
  const { rows } = sides(kind);
  const all = tensor(vectorsOf(kind).states[stackOf(kind)]);
  const sentence = spaced(rows.words.slice(0, -1), rows).join("");
  return {
    name: `${readable(rows.pieces[row])} (${sentence.length > 32 ? `${sentence.slice(0, 31)}…` : sentence})`,
    vectors: [...Array(all.shape[0]).keys()].map((layer) => Float32Array.from(at(all, layer, row).values)),
  };
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b) || 1);
}

const degrees = (a, b) => (180 / Math.PI) * Math.acos(Math.min(1, Math.max(-1, cosine(a, b))));

/** How far each layer turned the word's vector; and how like the kept word it became. */
function movement(kind, row) {
  const own = memory(kind, row);
  const turns = own.vectors.slice(1).map((vector, i) => [i + 1, degrees(vector, own.vectors[i])]);
  const start = own.vectors.map((vector, i) => [i, degrees(vector, own.vectors[0])]);
  const plots = [
    linePlot({
      name: t("moved"),
      x: t("layer.axis"),
      y: t("moved.unit"),
      low: 0,
      series: [
        { name: t("moved.total"), points: start },
        { name: t("moved.step"), points: turns },
      ],
    }),
  ];
  if (kept)
    plots.push(
      linePlot({
        name: t("alike", { word: kept.name }),
        x: t("layer.axis"),
        y: "cos",
        series: [
          {
            name: own.name,
            points: own.vectors.slice(0, kept.vectors.length).map((vector, i) => [i, cosine(vector, kept.vectors[i])]),
          },
        ],
      }),
    );
  return h("div", {}, h("p", { class: "muted small" }, t("moved.note")), h("div", { class: "halves" }, plots));
}
