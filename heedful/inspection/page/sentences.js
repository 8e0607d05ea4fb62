/** The sentences of a text, of which one can be looked into. The server divides it: `whole` is what it answered. */

import { h, show } from "./dom.js";
import { t } from "./i18n.js";
import { get } from "./store.js";
import { hypothesis } from "./weights.js";

/** Was the text in the target's language already? Then no model translated it. */
export const isSame = () => Boolean(get().whole) && get().whole.source.language === get().whole.target.language;

const sentences = () => (get().whole && !isSame() ? get().whole.source.sentences : []);

/** Is there more than one to look into? */
export const areSeveral = () => sentences().length > 1;

/** Marks alone are no sentence: the server leaves them as they are. */
const isSpoken = (text) => /[\p{L}\p{N}]/u.test(text ?? "");

/** Which one is looked into: the only one, or the chosen one; -1: none. */
export function chosenSentence() {
  const place = areSeveral() ? get().sentence : 0;
  return isSpoken(sentences()[place]) ? place : -1;
}

/** What stands where there is nothing to look at. */
export const nothingYet = () => t(areSeveral() ? "nothing.several" : "nothing");

/** Spaces and sentences in turn. */
const woven = (spaces, items) => spaces.flatMap((space, i) => (i < items.length ? [space, items[i]] : [space]));

/** The whole translation, with the sentence that is looked into as it is shown. */
export function wholeText() {
  const { whole, trace } = get();
  if (!whole) return trace ? hypothesis().text : "";
  const { spaces, sentences: texts } = whole.target;
  const shown = (text, i) => (trace && i === chosenSentence() ? hypothesis().text : text);
  return woven(spaces, texts.map(shown)).join("");
}

/** The whole translation; a click on a sentence chooses it. @param {any[] | null} words of the chosen one */
export function wholeView(words, choose) {
  const { spaces, sentences: texts, language } = get().whole.target;
  const sentence = (text, i) =>
    !isSpoken(sentences()[i])
      ? text
      : i === chosenSentence()
        ? h("span", { class: "sentence chosen" }, words ?? text)
        : h("span", { class: "sentence", onclick: () => getSelection()?.isCollapsed && choose(i) }, text);
  return h("span", { class: "plain", lang: language }, woven(spaces, areSeveral() ? texts.map(sentence) : texts));
}

/** A button for each sentence, if there are several. @param {(i: number) => void} choose */
export function drawSentences(place, choose) {
  if (!areSeveral()) return show(place);
  const { language, sentences: texts } = get().whole.source;
  const item = (text, i) =>
    h(
      "li",
      {},
      h(
        "button",
        { type: "button", disabled: !isSpoken(text), onclick: () => choose(i) },
        h("span", { class: "muted small", "aria-hidden": "true" }, i + 1),
        h("span", { class: "text", dir: "auto", lang: language }, text),
      ),
    );
  show(
    place,
    h("h3", { id: "sentences" }, t("sentences"), h("span", { class: "muted small" }, ` ${t("sentences.note")}`)),
    h("ol", { class: "list", "aria-labelledby": "sentences" }, texts.map(item)),
  );
  markSentence(place);
}

/** Press the button of the chosen sentence, and keep it in sight. */
export function markSentence(place) {
  const buttons = [...place.querySelectorAll("button")];
  buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosenSentence())));
  const [list, chosen] = [place.querySelector("ol"), buttons[chosenSentence()]];
  if (!chosen) return;
  const top = chosen.offsetTop;
  const bottom = top + chosen.offsetHeight;
  if (top < list.scrollTop || bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
}
