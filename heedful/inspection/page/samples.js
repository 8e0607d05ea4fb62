/** What stands below empty boxes: sentences to begin with, or the question for a key. */

import { embedded, useKey } from "./api.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";
import { get, set } from "./store.js";

/** Sentences to begin with, by source language. */
const SAMPLES = {
  en: [
    "The animal didn't cross the road because it was too tired.",
    "The animal didn't cross the road because it was too wide.",
    "A fluffy blue creature roamed the verdant forest.",
  ],
  de: ["Das Tier überquerte die Straße nicht, weil es zu müde war.", "Die Katze saß auf der Matte."],
  ko: ["동물은 너무 피곤해서 도로를 건너지 않았다.", "고양이는 매트 위에 앉았다."],
};
/** Where a server asks for a key. @param {() => void} start begin anew */
export function keyForm(start) {
  const input = h("input", { type: "password", autocomplete: "off", "aria-label": t("key") });
  const use = (event) => {
    event.preventDefault();
    useKey(input.value);
    set({ error: "" });
    start();
  };
  return h(
    "form",
    { class: "samples", onsubmit: use },
    h("label", { class: "small" }, t("key"), " ", input),
    h("button", { type: "submit" }, t("key.use")),
  );
}

/** A choice of sentences, as long as nothing is typed. @param {() => void} translateNow */
export function samples(translateNow) {
  const { q, languages = [], from } = get();
  if (embedded || q) return null;
  const codes = languages
    .filter((each) => (from === "auto" || each.code === from) && (each.targets ?? []).length)
    .map((each) => each.code);
  const texts = codes.flatMap((code) => (SAMPLES[code] ?? []).map((text) => ({ code, text })));
  if (!texts.length) return null;
  const take = ({ code, text }) => {
    const there = languages.find((each) => each.code === code).targets;
    set({
      q: text,
      from: code,
      to: there.includes(get().to) && get().to !== code ? get().to : there.find((each) => each !== code),
    });
    translateNow();
  };
  return h(
    "div",
    { class: "samples" },
    h("span", { class: "muted small" }, t("samples")),
    texts.map((sample) => h("button", { type: "button", lang: sample.code, onclick: () => take(sample) }, sample.text)),
  );
}
