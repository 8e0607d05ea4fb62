/** Region 3: decoding, step by step: what was written so far, what could come next, where it looks, and the beam. */

import { embedded } from "./api.js";
import { choiceRows } from "./choices.js";
import { directionOf, h, number, percent, readable, show, textOf } from "./dom.js";
import { t } from "./i18n.js";
import { nothingYet } from "./sentences.js";
import { get, set, subscribe } from "./store.js";
import { figure, table } from "./table.js";
import { decodeFrom } from "./translate.js";
import { beamTree } from "./tree.js";
import { hypothesis, kinds, pieceWeights, sizes } from "./weights.js";
import { spaced } from "./words.js";

/** @type {any} */ let places;
let playing = 0;

/** Draw the region into its place. */
export function decodeRegion(place) {
  places = { bar: h("div", { class: "scrubber" }), now: h("div", {}), tree: h("div", {}), examples: h("div", {}) };
  show(place, places.bar, places.now, places.tree, places.examples);
  subscribe(["trace", "whole", "n"], drawAll);
  subscribe(["t", "trace"], follow);
  subscribe(["step"], () => {
    moveSlider();
    drawNow();
    drawTree();
  });
  drawAll();
  follow();
}

/** A word that is chosen elsewhere brings its step here. */
function follow() {
  const { trace, t: word, step } = get();
  if (!trace || word < 0 || hypothesis().word_of_piece[step] === word) return;
  set({ step: Math.max(0, hypothesis().word_of_piece.indexOf(word)) });
}

const clamped = () => Math.min(Math.max(0, get().step), hypothesis().tokens.length - 1);

function drawAll() {
  stop();
  if (!get().trace)
    return (
      show(places.bar, h("p", { class: "muted" }, nothingYet())),
      show(places.now),
      show(places.tree),
      show(places.examples)
    );
  const last = hypothesis().tokens.length - 1;
  const slider = h("input", {
    type: "range",
    min: 0,
    max: last,
    value: clamped(),
    "aria-label": t("step"),
    oninput: () => {
      stop();
      set({ step: Number(slider.value) });
    },
  });
  const move = (by) => () => {
    stop();
    set({ step: Math.min(last, Math.max(0, clamped() + by)) });
  };
  places.slider = slider;
  places.count = h("span", { class: "small muted count" });
  places.play = h("button", { type: "button", onclick: play }, t("play"));
  show(
    places.bar,
    h("button", { type: "button", "aria-label": t("back"), onclick: move(-1) }, "←"),
    slider,
    h("button", { type: "button", "aria-label": t("forward"), onclick: move(1) }, "→"),
    places.play,
    places.count,
  );
  moveSlider();
  drawNow();
  drawTree();
  drawExamples();
}

function moveSlider() {
  if (!places.slider || !get().trace) return;
  places.slider.value = String(clamped());
  places.count.textContent = t("step.of", { n: clamped() + 1, all: hypothesis().tokens.length });
}

function play() {
  if (playing) return stop();
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (clamped() === hypothesis().tokens.length - 1) set({ step: 0 });
  places.play.textContent = t("pause");
  playing = window.setInterval(
    () => {
      if (clamped() >= hypothesis().tokens.length - 1) return stop();
      set({ step: clamped() + 1 });
    },
    still ? 2000 : 900,
  );
}

function stop() {
  clearInterval(playing);
  playing = 0;
  if (places.play) places.play.textContent = t("play");
}

function drawNow() {
  if (!get().trace) return;
  const best = hypothesis();
  const step = clamped();
  const before = textOf(best.pieces.slice(0, step));
  const total = best.tokens.slice(0, step + 1).reduce((sum, token) => sum + token.logp, 0);
  const prefix = h(
    "p",
    { class: "prefix", dir: "auto", lang: get().trace.target.language },
    before ? `${before} ` : h("span", { class: "muted" }, "<s> "),
    h("strong", { class: "next" }, readable(best.pieces[step])),
  );
  const bars = h("ol", { class: "choices" }, choiceRows(best, step, embedded ? null : decodeFrom));
  const data = () => ({
    name: t("choices"),
    columns: [t("piece"), "p"],
    rows: best.tokens[step].top.map((choice) => [readable(choice.piece), choice.p]),
  });
  show(
    places.now,
    prefix,
    h("p", { class: "small muted" }, t("cumulative", { p: percent(best.tokens[step].p), total: number(total) })),
    h(
      "div",
      { class: "halves" },
      h("div", {}, h("h3", {}, t("next")), figure("next", bars, data)),
      kinds().includes("cross") ? h("div", {}, h("h3", {}, t("looks")), looks(best, step)) : null,
    ),
  );
}

/** Where the last layer's cross-attention looks at this step, mean of its heads. */
function looks(best, step) {
  const { trace } = get();
  const { layers, heads } = sizes("cross");
  const values = pieceWeights("cross", layers - 1, [...Array(heads).keys()]);
  if (!values) return h("p", { class: "muted" }, t("fetching"));
  const width = trace.source.pieces.length;
  const shares = trace.source.words.map(() => 0);
  trace.source.word_of_piece.forEach((word, j) => (shares[word] += values[step * width + j]));
  const words = h(
    "p",
    { class: "words looks", dir: directionOf(trace.source.words), lang: trace.source.language },
    spaced(
      trace.source.words.map((word, j) =>
        h(
          "span",
          { class: "word", dir: "auto", title: percent(shares[j]), style: { "--tint": `${Math.round(60 * shares[j])}%` } },
          word,
          h("sub", {}, shares[j] >= 0.05 ? Math.round(100 * shares[j]) : ""),
        ),
      ),
      trace.source,
    ),
  );
  return figure(
    "looks",
    words,
    () => ({
      name: t("looks"),
      columns: [t("word"), t("weight")],
      rows: trace.source.words.map((word, j) => [word, shares[j].toFixed(3)]),
    }),
    t("looks.note"),
  );
}

function drawTree() {
  if (!get().trace) return;
  const scrolled = places.tree.querySelector(".scroll")?.scrollLeft ?? 0;
  const tree = get().n === 0 || !get().trace.target.given ? beamTree() : null;
  show(places.tree, tree ? [h("h3", {}, t("tree")), tree] : null);
  const box = places.tree.querySelector(".scroll");
  const now = places.tree.querySelector(".now rect");
  if (!box || !now) return;
  const x = Number(now.getAttribute("x"));
  box.scrollLeft = x < scrolled || x > scrolled + box.clientWidth - 120 ? x - box.clientWidth / 2 : scrolled;
}

/** The training examples that one sentence gives. */
function drawExamples() {
  const { trace } = get();
  if (!trace.target.given) return show(places.examples);
  const rows = hypothesis().examples.map((each) => [each.prefix || "<s>", each.next, percent(each.p)]);
  show(
    places.examples,
    h("h3", {}, t("examples")),
    h("p", { class: "small muted" }, t("examples.note")),
    h(
      "div",
      { class: "captioned wrapped" },
      table({ name: t("examples"), columns: [t("prefix"), t("next.word"), "p"], rows }),
    ),
  );
}
