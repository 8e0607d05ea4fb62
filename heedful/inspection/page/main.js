/** The page: four regions that share one selection. */

import { embedded } from "./api.js";
import { attentionRegion } from "./attention.js";
import { curvesView } from "./curves.js";
import { decodeRegion } from "./decode.js";
import { h, show } from "./dom.js";
import { LANGUAGES, chooseLanguage, t } from "./i18n.js";
import { bring, insideRegion } from "./inside.js";
import { positionsView } from "./positions.js";
import { get, readHash, set } from "./store.js";
import { leaveSentence, translateNow, translateRegion } from "./translate.js";
import { workedRegion } from "./worked.js";

const page = document.getElementById("page");

function section(id, ...children) {
  return h(
    "section",
    { id, class: "region", "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, t(`region.${id}`)),
    h("p", { class: "lead muted" }, t(`lead.${id === "translate" && embedded ? "file" : id}`)),
    children,
  );
}

/** A region that is closed until it is wanted. */
function folded(id, make) {
  const place = h("div", {});
  const details = h(
    "details",
    { id, class: "region" },
    h("summary", {}, h("h2", {}, t(`region.${id}`)), h("span", { class: "muted lead" }, t(`lead.${id}`))),
    place,
  );
  make(place, details);
  return details;
}

/** The whole page, in the language that is chosen. */
function build() {
  document.documentElement.lang = get().ui;
  const alone =
    embedded?.positions && !embedded.trace
      ? positionsView(embedded.positions)
      : embedded?.metrics && !embedded.trace
        ? curvesView(embedded.metrics)
        : null;
  if (alone) return show(page, section(embedded.positions ? "positions" : "training", alone));
  const [translate, attention, decode] = [h("div", {}), h("div", {}), h("div", {})];
  show(
    page,
    section("translate", translate),
    section("attention", attention),
    folded("worked", (place, details) => {
      workedRegion(place);
      details.addEventListener("toggle", () => details.open && set({ opened: Date.now() }));
    }),
    section("decode", decode),
    folded("inside", insideRegion),
  );
  translateRegion(translate);
  attentionRegion(attention);
  decodeRegion(decode);
}

function languageButtons() {
  const place = document.getElementById("languages");
  show(
    place,
    Object.entries(LANGUAGES).map(([code, name]) =>
      h(
        "button",
        {
          type: "button",
          lang: code,
          "aria-pressed": String(code === get().ui),
          onclick: () => {
            set({ ui: code });
            location.reload();
          },
        },
        name,
      ),
    ),
  );
}

function start() {
  readHash();
  if (!get().ui) set({ ui: navigator.language.startsWith("ko") ? "ko" : "en" });
  chooseLanguage(get().ui);
  if (embedded?.trace) {
    bring(embedded);
    set({ trace: embedded.trace, q: embedded.trace.source.text });
    if (embedded.select && !/[#&](kind|l|h)=/.test(location.hash)) set(embedded.select);
  }
  languageButtons();
  build();
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    const isPinned = get().t >= 0 || get().s >= 0;
    set({ t: -1, s: -1, preview: null });
    if (!isPinned) leaveSentence();
  });
  addEventListener("hashchange", () => {
    const before = { ...get() };
    readHash();
    const changed = (...keys) => keys.some((key) => before[key] !== get()[key]);
    if (changed("sentence")) set({ trace: embedded?.trace ?? null });
    if (changed("q", "from", "to", "sentence", "prefix")) translateNow();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => set({ scheme: Date.now() }));
}

start();
