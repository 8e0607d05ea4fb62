/** The words of both boxes, how they mark one another, and the alternatives. */

import { embedded } from "./api.js";
import { choices, closeChoices } from "./choices.js";
import { h, number } from "./dom.js";
import { t } from "./i18n.js";
import { get, set } from "./store.js";
import { headsOf, kinds, layerOf, matrix, shownKind, sizes } from "./weights.js";

const UNSURE = 0.7;

/** Nodes for the first words of a side, with a space between two where the text has one. */
export const spaced = (nodes, side) => nodes.flatMap((node, i) => (i && isApart(side, i) ? [" ", node] : [node]));

/** Does a space stand before this word? Chinese, for one, has none, and its words are pieces. */
const isApart = (side, word) => /^(▁|<\/s>$)/.test(side.pieces[side.word_of_piece.indexOf(word)]);

/** How sure the model was of a word: the least sure of its pieces. */
function sureness(best, word) {
  return Math.min(...best.tokens.filter((_, i) => best.word_of_piece[i] === word).map((token) => token.p));
}

/** A word without letters, such as a number and its full stop, runs as the line does. */
function direction(word) {
  return /\p{L}/u.test(word) ? "auto" : null;
}

/** A word of the translation: click it to see what else could stand there. */
export function targetWord(best, word, i, decodeFrom) {
  const sure = sureness(best, i);
  const open = () => {
    const wasOpen = node.hasAttribute("aria-expanded");
    set({ t: wasOpen ? -1 : i, step: best.word_of_piece.indexOf(i) });
    if (wasOpen) closeChoices();
    else choices(node, best, i, embedded ? null : decodeFrom);
  };
  const node = h(
    "button",
    {
      type: "button",
      class: sure < UNSURE ? "word unsure" : "word",
      dir: direction(word),
      "data-t": i,
      "aria-label": `${word}, ${Math.round(100 * sure)} %`,
      style: { "--doubt": `${(1.5 + 2 * (1 - sure)).toFixed(1)}px` },
      onclick: open,
      ...previews("t", i),
    },
    word,
  );
  return node;
}

/** A word of the source. */
export function sourceWord(word, i) {
  return h(
    "button",
    {
      type: "button",
      class: "word",
      dir: direction(word),
      "data-s": i,
      onclick: () => set({ s: get().s === i ? -1 : i }),
      ...previews("s", i),
    },
    word,
  );
}

const previews = (side, i) => ({
  onmouseenter: () => set({ preview: { side, i } }),
  onmouseleave: () => set({ preview: null }),
  onfocus: () => set({ preview: { side, i } }),
  onblur: () => set({ preview: null }),
});

/** Colour the words that the chosen or hovered word looks at; a source word: those that look at it. */
export function markWords(parts) {
  const { trace, preview, t: pinned, s: other } = get();
  if (!trace) return;
  const focus = preview ?? (pinned >= 0 ? { side: "t", i: pinned } : other >= 0 ? { side: "s", i: other } : null);
  const found = kinds().includes("cross") ? crossMatrix() : null;
  const width = trace.source.words.length;
  const weight = (row, column) => (found && row < found.rows.length ? found.values[row * width + column] : 0);
  for (const node of parts.words.querySelectorAll(".word"))
    tint(
      node,
      focus?.side === "t" ? weight(focus.i, Number(node.dataset.s)) : 0,
      focus?.side === "s" && focus.i === Number(node.dataset.s),
    );
  for (const node of parts.output.querySelectorAll(".word"))
    tint(
      node,
      focus?.side === "s" ? weight(Number(node.dataset.t), focus.i) : 0,
      focus?.side === "t" && focus.i === Number(node.dataset.t),
    );
}

/** The weights that are shown, where those are of cross-attention; else the mean of its last layer. */
function crossMatrix() {
  const { layers, heads } = sizes("cross");
  const [layer, chosen] =
    shownKind() === "cross" ? [layerOf("cross"), headsOf("cross")] : [layers - 1, [...Array(heads).keys()]];
  return matrix("cross", layer, chosen, { unit: "words", hide: false });
}

function tint(node, weight, chosen) {
  node.style.setProperty("--tint", `${Math.round(100 * Math.min(1, weight) * 0.55)}%`);
  node.classList.toggle("chosen", chosen);
}

/** The words of a translation; those that are not in the longest sequence it has in common with the best one stand out. */
function marked(best, words) {
  const common = Array.from({ length: best.length + 1 }, () => new Array(words.length + 1).fill(0));
  for (let i = best.length - 1; i >= 0; i--)
    for (let j = words.length - 1; j >= 0; j--)
      common[i][j] =
        best[i] === words[j] ? 1 + common[i + 1][j + 1] : Math.max(common[i + 1][j], common[i][j + 1]);
  let i = 0;
  return words.map((word, j) => {
    while (i < best.length && best[i] !== word && common[i + 1][j] >= common[i][j + 1]) i += 1;
    if (i < best.length && best[i] === word) return ((i += 1), word);
    return h("mark", {}, word);
  });
}

/** The other translations, with the words that differ from the best one set off. */
export function alternatives(trace) {
  if (trace.hypotheses.length < 2) return [];
  const best = trace.hypotheses[0].words;
  const items = trace.hypotheses.map((each, n) =>
    h(
      "li",
      {},
      h(
        "button",
        { type: "button", "aria-pressed": String(n === get().n), onclick: () => set({ n, t: -1, step: 0 }) },
        h(
          "span",
          { class: "text", dir: "auto", lang: trace.target.language },
          spaced(marked(best, each.words).slice(0, -1), each),
        ),
        h("span", { class: "score muted small", title: t("score.title") }, number(each.score ?? each.log_prob)),
      ),
    ),
  );
  return [
    h("h3", {}, t("alternatives"), h("span", { class: "muted small" }, ` ${t("alternatives.note")}`)),
    h("ol", { class: "list" }, items),
  ];
}
