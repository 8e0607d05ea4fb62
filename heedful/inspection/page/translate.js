/** Region 1: two boxes, alternatives, and words that can be asked about. Works without the other regions. */

import { embedded, fetchLanguages, fetchSentences, fetchTrace, giveUp } from "./api.js";
import { directionOf, h, oneStop, show } from "./dom.js";
import { t, languageName } from "./i18n.js";
import { closeChoices } from "./choices.js";
import { copy } from "./clipboard.js";
import { areSeveral, chosenSentence, drawSentences, isSame, markSentence, wholeText, wholeView } from "./sentences.js";
import { get, set, subscribe } from "./store.js";
import { keyForm, samples } from "./samples.js";
import { hypothesis, kinds } from "./weights.js";
import { alternatives, markWords, sourceWord, spaced, targetWord } from "./words.js";

const WAIT_MS = 400;

/** @type {any} */ let parts;
let timer = 0;
let turn = 0;

/** Draw the region into its place. */
export function translateRegion(place) {
  parts = pieces();
  const boxes = h("div", { class: "boxes" }, parts.sourceCard, parts.swap, parts.targetCard);
  show(place, boxes, parts.sentences, parts.alternatives);
  subscribe(["whole"], () => drawSentences(parts.sentences, chooseSentence));
  subscribe(["sentence"], () => markSentence(parts.sentences));
  subscribe(["trace", "n", "busy", "error", "whole", "sentence", "languages", "from", "locked"], drawTarget);
  subscribe(["trace", "n", "t", "s", "preview", "kind", "l", "h"], mark);
  subscribe(["languages", "from", "to", "detected"], drawLanguages);
  subscribe(["q"], () => {
    if (parts.input.value !== get().q) parts.input.value = get().q;
    count();
  });
  drawLanguages();
  drawTarget();
  count();
  if (!embedded) start();
}

async function start() {
  try {
    const languages = await fetchLanguages();
    set({ languages });
    translateNow();
  } catch (error) {
    set({ error: String(error.message), again: Boolean(error.again), busy: false });
  }
}

function pieces() {
  const input = h("textarea", {
    id: "source",
    dir: "auto",
    rows: "4",
    spellcheck: "false",
    readonly: Boolean(embedded),
    "aria-label": t("source"),
    placeholder: t("placeholder"),
    oninput: () => {
      count();
      clearTimeout(timer);
      timer = setTimeout(typed, WAIT_MS);
    },
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        clearTimeout(timer);
        typed();
      }
    },
  });
  input.value = get().q;
  const words = h("div", { class: "words source-words", dir: "auto", lang: null });
  const counter = h("span", { class: "muted small" });
  const clear = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        input.value = "";
        count();
        typed();
        input.focus();
      },
    },
    t("clear"),
  );
  const from = h("select", {
    "aria-label": t("from"),
    onchange: () => chooseLanguages({ from: from.value }),
  });
  const to = h("select", {
    "aria-label": t("to"),
    onchange: () => chooseLanguages({ to: to.value }),
  });
  const output = h("div", { class: "words target-words", id: "target", dir: "auto" });
  const status = h("p", { class: "status small muted", role: "status", "aria-live": "polite" });
  const copyButton = h("button", { type: "button", class: "quiet", onclick: copyText }, t("copy"));
  const swap = embedded
    ? h("span", { class: "arrow", "aria-hidden": "true" }, "→")
    : h(
        "button",
        { type: "button", class: "swap", "aria-label": t("swap"), title: t("swap"), onclick: swapLanguages },
        "⇄",
      );
  const sourceCard = h(
    "section",
    { class: "box", "aria-label": t("source") },
    h(
      "header",
      {},
      embedded ? h("strong", { class: "from" }) : from,
      h("span", { class: "grow" }),
      embedded ? null : h("span", { class: "count" }, counter, clear),
    ),
    embedded ? null : input,
    words,
  );
  const targetCard = h(
    "section",
    { class: "box", "aria-label": t("translation") },
    h("header", {}, embedded ? h("strong", { class: "to" }) : to, h("span", { class: "grow" }), copyButton),
    output,
    status,
  );
  const alternatives = h("div", { class: "alternatives" });
  const sentences = h("div", { class: "sentences" });
  return { input, words, counter, from, to, output, status, swap, sourceCard, targetCard, sentences, alternatives };
}

function count() {
  parts.counter.textContent = t("characters", { n: [...parts.input.value].length });
}

function typed() {
  const q = parts.input.value;
  if (q === get().q) return get().error ? translateNow() : undefined;
  set({ ...UNCHOSEN, q });
  translateNow();
}

/** What was chosen in a translation goes with it. */
const UNCHOSEN = { sentence: -1, prefix: "", n: 0, t: -1, s: -1, step: 0 };

function chooseLanguages(change) {
  set({ ...UNCHOSEN, ...change });
  translateNow();
}

/** Look into a sentence; chosen once more, see the whole text again. */
function chooseSentence(i) {
  set({ ...UNCHOSEN, trace: null, sentence: i === get().sentence ? -1 : i });
  translateNow();
}

/** Back to the whole text; who was in the sentence is now at its button. */
export function leaveSentence() {
  const { sentence } = get();
  if (!areSeveral() || sentence < 0) return;
  chooseSentence(sentence);
  if (document.activeElement === document.body) parts.sentences.querySelectorAll("button")[sentence]?.focus();
}

/** The languages that a source language can be translated into. */
function targetsOf(from) {
  const sources = (get().languages ?? []).filter((each) => from === "auto" || each.code === from);
  return [...new Set(sources.flatMap((each) => (each.targets ?? []).filter((code) => code !== each.code)))];
}

/** Can anything be translated from this language? One that a link asks for is named all the same. */
const isSource = ({ code }) => targetsOf(code).length > 0 || code === get().from;

/** The target that is chosen, if the source can be translated into it; else one that it can. */
function settleTarget() {
  const targets = targetsOf(get().from);
  if (targets.length && !targets.includes(get().to)) set({ to: targets[0] });
}

function swapLanguages() {
  const source = get().from === "auto" ? (get().detected ?? "") : get().from;
  const text = wholeText() || get().q;
  const there = (get().languages ?? []).find((each) => each.code === get().to);
  if (!source || !there?.targets?.includes(source)) return set({ error: t("no.swap"), again: false });
  chooseLanguages({ from: get().to, to: source, q: text });
}

async function copyText() {
  const text = wholeText();
  if (text) parts.status.textContent = await copy(text);
}

function showNothing() {
  giveUp();
  set({ trace: null, whole: null, error: "", busy: false });
}

/** The text's translation: the one that is there, if it is of this text. */
async function translated() {
  const { q, from, to, whole } = get();
  const of = JSON.stringify([q, from, to]);
  return whole?.of === of ? whole : { ...(await fetchSentences(q, from, to)), of };
}

/** Translate, then look into the only sentence, or the chosen one. A newer text overtakes an older answer. */
export async function translateNow() {
  const mine = ++turn;
  if (embedded) return;
  if (!get().languages) return start();
  settleTarget();
  const { q, prefix } = get();
  if (!q.trim()) return showNothing();
  giveUp();
  set({ busy: true, error: "" });
  const other = prefix ? {} : { trace: null }; // what is shown there is of another text
  let whole = null;
  try {
    whole = await translated();
    if (mine !== turn) return;
    const { source, target } = whole;
    set({ whole, detected: source.language, ...other });
    const sentence = chosenSentence();
    if (sentence < 0) return set({ busy: false, sentence: -1, trace: null });
    const languages = { source: source.language, target: target.language };
    const trace = await fetchTrace({ q: source.sentences[sentence], ...languages, prefix });
    if (mine !== turn) return;
    set({ trace, busy: false, n: Math.min(get().n, trace.hypotheses.length - 1) });
  } catch (error) {
    if (mine !== turn || error.name === "AbortError") return;
    const rest = whole ? other : { trace: null };
    set({ error: String(error.message), again: Boolean(error.again), busy: false, whole, ...rest });
  }
}

/** Decode again behind these words. */
export function decodeFrom(prefix) {
  closeChoices();
  set({ prefix, n: 0, t: -1, step: 0 });
  translateNow();
}

function drawLanguages() {
  const { languages = [], from, to, detected, trace } = get();
  if (embedded) {
    parts.sourceCard.querySelector(".from").textContent = languageName(trace?.source.language ?? "");
    parts.targetCard.querySelector(".to").textContent = languageName(trace?.target.language ?? "");
    return;
  }
  const option = (code, name, chosen) => h("option", { value: code, selected: code === chosen }, name);
  const detect =
    from === "auto" && detected && detected !== "auto" ? `${t("detect")} (${languageName(detected)})` : t("detect");
  show(
    parts.from,
    option("auto", detect, from),
    languages.filter(isSource).map((each) => option(each.code, languageName(each.code, each.name), from)),
  );
  show(
    parts.to,
    targetsOf(from).map((code) => option(code, languageName(code), to)),
  );
}

function drawTarget() {
  const { trace, busy, error, whole } = get();
  closeChoices();
  show(parts.status, busy ? t("busy") : error || hint(), tryAgain());
  parts.status.classList.toggle("error", Boolean(error));
  parts.targetCard.setAttribute("aria-busy", String(busy));
  if (!trace) {
    parts.output.setAttribute("dir", "auto");
    show(parts.output, whole ? wholeView(null, chooseSentence) : h("span", { class: "muted" }, t("translation")));
    show(parts.words);
    return show(parts.alternatives, get().locked ? keyForm(start) : samples(translateNow));
  }
  const best = hypothesis();
  speak(parts.output, trace.target.language, best.words);
  speak(parts.words, trace.source.language, trace.source.words);
  const words = row(best, (word, i) => targetWord(best, word, i, decodeFrom));
  show(parts.output, areSeveral() ? wholeView(words, chooseSentence) : words);
  show(parts.words, row(trace.source, sourceWord));
  show(parts.alternatives, alternatives(trace));
  drawLanguages();
  mark();
}

/** The words of a side, without its end, in a row that has one stop of the Tab key. */
const row = (side, node) => spaced(oneStop(side.words.slice(0, -1).map(node), directionOf(side.words)), side);

/** What can be done with the translation that is there. */
function hint() {
  if (get().trace) return t(kinds().includes("cross") ? "unsure.hint" : "unsure.alone");
  return areSeveral() ? t("divided") : isSame() ? t("same") : "";
}

/** Where a request may succeed later. */
function tryAgain() {
  const { busy, error, again, locked } = get();
  if (busy || !error || !again || locked) return null;
  return h("button", { type: "button", class: "quiet", onclick: translateNow }, t("again"));
}

/** Language and direction of a row of words. */
function speak(node, language, words) {
  node.setAttribute("lang", language);
  node.setAttribute("dir", directionOf(words));
}

function mark() {
  if (get().trace) markWords(parts);
}
