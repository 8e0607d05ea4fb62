/** Region 2: where each layer and head looked. Tabs for the kinds, small multiples, one map large, or lines. */

import { embedded, fetchTrace } from "./api.js";
import { h, isBrowsers, segmented, show, toggle } from "./dom.js";
import { headsOverview } from "./heads.js";
import { t } from "./i18n.js";
import { linesView } from "./lines.js";
import { markChosen, matrixView } from "./matrix.js";
import { nothingYet } from "./sentences.js";
import { get, set, subscribe } from "./store.js";
import { hypothesis, kinds, layerOf, packedWeights, shownKind, sides, sizes } from "./weights.js";

/** @type {any} */ let places;

/** Draw the region into its place. */
export function attentionRegion(place) {
  places = {
    tabs: h("div", { class: "tabs", role: "tablist", "aria-label": t("kind") }),
    about: h("p", { class: "muted about" }),
    heads: h("div", {}),
    bar: h("div", { class: "bar" }),
    view: h("div", {}),
    none: h("p", { class: "muted" }),
  };
  places.some = h(
    "div",
    {},
    places.tabs,
    h(
      "div",
      { role: "tabpanel", id: "kind-panel", "aria-labelledby": "tab-cross" },
      places.about,
      places.heads,
      places.bar,
      places.view,
    ),
    h("p", { class: "caveat" }, t("caveat")),
  );
  show(place, places.some, places.none);
  subscribe(["trace", "whole", "n", "kind", "scheme", "ramp"], drawAll);
  subscribe(["l", "h"], () => {
    drawHeads();
    drawView();
  });
  subscribe(["unit", "hide", "scale", "view"], drawView);
  subscribe(["t", "s"], drawSelection);
  drawAll();
}

function drawAll() {
  const hasAny = Boolean(shownKind());
  places.some.hidden = !hasAny;
  places.none.hidden = hasAny;
  if (!hasAny) places.none.textContent = t("attention.none", { family: get().trace.model.family });
  drawTabs();
  drawHeads();
  drawView();
}

function drawTabs() {
  const kind = shownKind();
  const tabs = kinds().map((each) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${each}`,
        "aria-selected": String(each === kind),
        "aria-controls": "kind-panel",
        tabindex: each === kind ? "0" : "-1",
        onclick: () => set({ kind: each, h: [], l: -1 }),
        onkeydown: moveTab,
      },
      t(`kind.${each}`),
    ),
  );
  show(places.tabs, tabs);
  places.about.parentElement.setAttribute("aria-labelledby", `tab-${kind}`);
  places.about.textContent = t(`about.${kind}`);
}

function moveTab(event) {
  const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!move || isBrowsers(event)) return;
  const all = kinds();
  const kind = all[(all.indexOf(shownKind()) + move + all.length) % all.length];
  set({ kind, h: [], l: -1 });
  document.getElementById(`tab-${kind}`)?.focus();
}

function drawHeads() {
  if (!get().trace || !shownKind()) return show(places.heads);
  show(places.heads, headsOverview());
}

function drawView() {
  const { trace, view } = get();
  const kind = shownKind();
  if (!trace) return (show(places.view, h("p", { class: "muted" }, nothingYet())), show(places.bar));
  if (!kind) return (show(places.view), show(places.bar));
  show(places.bar, controls());
  if (!packedWeights(kind).layers.includes(layerOf(kind))) {
    show(places.view, h("p", { class: "muted" }, t("fetching")));
    return fetchLayer();
  }
  show(places.view, view === "lines" ? linesView() : matrixView());
}

/** A map of a long sentence has thousands of cells; a chosen word changes its heads only. */
function drawSelection() {
  if (!get().trace || !shownKind() || get().view === "lines") return drawView();
  show(places.bar, controls());
  markChosen(places.view);
}

/** Of a long sentence layers, and those of alternatives, come one by one; with the last, which other regions show. */
async function fetchLayer() {
  if (embedded) return;
  const { trace, prefix } = get();
  const kind = shownKind();
  const elsewhere = kinds().includes("cross") ? [sizes("cross").layers - 1] : [];
  const n = kind === "encoder" ? 0 : get().n; // it reads the source, whichever translation is shown
  const best = hypothesis();
  try {
    const found = await fetchTrace({
      q: trace.source.text,
      source: trace.source.language,
      target: trace.target.language,
      layers: [layerOf(kind), ...elsewhere],
      prefix,
      hypothesis: n,
    });
    if (n > 0) Object.assign(best, { attention: found.attention, vectors: found.vectors });
    set({ trace: n > 0 ? { ...trace } : { ...trace, attention: found.attention, vectors: found.vectors } });
  } catch (error) {
    if (error.name !== "AbortError") show(places.view, h("p", { class: "error" }, String(error.message)));
  }
}

function controls() {
  const { view, unit, scale, hide, ramp } = get();
  return [
    segmented(
      t("view"),
      [
        ["matrix", t("view.matrix")],
        ["lines", t("view.lines")],
      ],
      view,
      (value) => set({ view: value }),
    ),
    segmented(
      t("unit"),
      [
        ["words", t("unit.words")],
        ["pieces", t("unit.pieces")],
      ],
      unit,
      (value) => set({ unit: value }),
    ),
    view === "matrix"
      ? segmented(
          t("scale"),
          [
            ["linear", t("scale.linear")],
            ["root", "√"],
          ],
          scale,
          (value) => set({ scale: value }),
        )
      : null,
    view === "matrix"
      ? segmented(
          t("ramp"),
          [
            ["hue", t("ramp.hue")],
            ["viridis", "viridis"],
          ],
          ramp,
          (value) => set({ ramp: value }),
        )
      : null,
    toggle(t("hide"), hide, (value) => set({ hide: value })),
    rowPicker(),
  ];
}

/** The word that looks, for the keyboard and for lines. */
function rowPicker() {
  const kind = shownKind();
  const key = kind === "encoder" ? "s" : "t";
  const options = sides(kind).rows.words.map((word, i) => h("option", { value: i, selected: get()[key] === i }, word));
  const select = h(
    "select",
    { "aria-label": t("word"), onchange: () => set({ [key]: Number(select.value) }) },
    h("option", { value: -1 }, t("word.all")),
    options,
  );
  return h("label", { class: "picker" }, h("span", { class: "small muted" }, t("word")), select);
}
