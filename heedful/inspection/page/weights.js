/** From a trace to one matrix: which kind, layer and heads; words or pieces; with or without special tokens. */

import { at, tensor } from "./codec.js";
import { get } from "./store.js";

/**
 * @typedef {object} Matrix
 * @property {{label: string, word: number}[]} rows those that look
 * @property {{label: string, word: number}[]} columns those that are looked at
 * @property {Float32Array} values row by row
 * @property {boolean} causal what comes later is masked
 */

const KINDS = ["cross", "encoder", "decoder"];
const PUNCTUATION = /^[\p{P}\p{S}]+$/u;

/** The hypothesis that is shown. */
export function hypothesis() {
  const { trace, n } = get();
  return trace.hypotheses[Math.min(n, trace.hypotheses.length - 1)];
}

/** Is this `</s>`, `<s>` or punctuation alone? */
export function isSink(label) {
  return label === "</s>" || label === "<s>" || PUNCTUATION.test(label);
}

/** The packed weights of a kind, for the hypothesis that is shown. */
export function packedWeights(kind) {
  const { trace, n } = get();
  return kind === "encoder" || n === 0 ? trace.attention[kind] : (hypothesis().attention?.[kind] ?? { layers: [] });
}

/** The vectors behind a kind, for the hypothesis that is shown; null: they were not sent. */
export function vectorsOf(kind) {
  const { trace, n } = get();
  return kind === "encoder" || n === 0 ? trace.vectors : (hypothesis().vectors ?? null);
}

/** The kinds of attention that the model has; before it is known, all that there are. */
export function kinds() {
  const { trace } = get();
  return trace ? KINDS.filter((kind) => kind in trace.attention) : KINDS;
}

/** The kind that is shown: the chosen one, or the first that the model has; undefined: it has none. */
export function shownKind() {
  return kinds().includes(get().kind) ? get().kind : kinds()[0];
}

/** How many layers and heads a kind has. */
export function sizes(kind) {
  const { num_layers: layers, shape } = get().trace.attention[kind];
  return { layers, heads: shape[1] };
}

/** The layer that is shown. */
export function layerOf(kind) {
  const { layers } = sizes(kind);
  return get().l < 0 || get().l >= layers ? layers - 1 : get().l;
}

/** The heads that are shown; none chosen: all. */
export function headsOf(kind) {
  const chosen = get().h.filter((head) => head < sizes(kind).heads);
  return chosen.length ? chosen : [...Array(sizes(kind).heads).keys()];
}

/** Source and target as those that look, or are looked at. */
export function sides(kind) {
  const source = get().trace.source;
  const target = hypothesis();
  const read = {
    pieces: ["<s>", ...target.pieces.slice(0, -1)],
    words: ["<s>", ...target.words.slice(0, -1)],
    word_of_piece: [0, ...target.word_of_piece.slice(0, -1).map((word) => word + 1)],
  };
  return { rows: kind === "encoder" ? source : target, columns: kind === "decoder" ? read : source };
}

/** The weights of some heads of a layer, averaged, as they left the model. @returns {Float32Array | null} */
export function pieceWeights(kind, layer, heads) {
  const packed = packedWeights(kind);
  const place = packed.layers.indexOf(layer);
  if (place < 0) return null;
  const parts = heads.map((head) => at(tensor(packed), place, head).values);
  return parts[0].map((_, i) => parts.reduce((sum, part) => sum + part[i], 0) / parts.length);
}

/** @returns {Matrix | null} null: this layer was not sent */
export function matrix(
  kind = shownKind(),
  layer = layerOf(kind),
  heads = headsOf(kind),
  { unit = get().unit, hide = get().hide } = {},
) {
  const values = pieceWeights(kind, layer, heads);
  if (!values) return null;
  const { rows, columns } = sides(kind);
  const whole = unit === "words" ? byWords(values, rows, columns) : byPieces(values, rows, columns);
  const found = { ...whole, causal: kind === "decoder" };
  return hide ? withoutSinks(found) : found;
}

function byPieces(values, rows, columns) {
  const labels = (side) => side.pieces.map((label, i) => ({ label, word: side.word_of_piece[i] }));
  return { rows: labels(rows), columns: labels(columns), values };
}

/** The sum over the pieces looked at, the mean over those that look. */
function byWords(values, rows, columns) {
  const summed = new Float32Array(rows.words.length * columns.words.length);
  const count = new Float32Array(rows.words.length);
  rows.word_of_piece.forEach((row, i) => {
    count[row] += 1;
    columns.word_of_piece.forEach((column, j) => {
      summed[row * columns.words.length + column] += values[i * columns.pieces.length + j];
    });
  });
  const labels = (side) => side.words.map((label, word) => ({ label, word }));
  return {
    rows: labels(rows),
    columns: labels(columns),
    values: summed.map((v, i) => v / count[Math.floor(i / columns.words.length)]),
  };
}

/** Columns of special tokens and punctuation go, and what is left of a row becomes 1 again. */
function withoutSinks(found) {
  const width = found.columns.length;
  const kept = found.columns
    .map((column, j) => (isSink(column.label.replaceAll("▁", "")) ? -1 : j))
    .filter((j) => j >= 0);
  if (!kept.length) return found;
  const values = new Float32Array(found.rows.length * kept.length);
  found.rows.forEach((_, i) => {
    const total = kept.reduce((sum, j) => sum + found.values[i * width + j], 0);
    kept.forEach((j, place) => (values[i * kept.length + place] = total > 0 ? found.values[i * width + j] / total : 0));
  });
  return { ...found, columns: kept.map((j) => found.columns[j]), values, places: kept };
}

/** What word a row stands for in the shared selection: [side, word]. In the decoder a column is a word already written. */
export function selectionOf(kind, axis, word) {
  if (axis === "row") return kind === "encoder" ? ["s", word] : ["t", word];
  return kind === "decoder" ? ["t", word - 1] : ["s", word];
}

/** May this row look at this column? A word of several pieces may look at its own first ones. */
export function allowed(found, i, j) {
  return !found.causal || (found.places ? found.places[j] : j) <= i || found.values[i * found.columns.length + j] > 0;
}
