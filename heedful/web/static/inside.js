/** Region 4: what lies behind: positions, training, the model's card, and the last request. */

import { curl, embedded, fetchMetrics, fetchPositions } from "./api.js";
import { curvesView, scheduleView } from "./curves.js";
import { h, show } from "./dom.js";
import { languageName, t } from "./i18n.js";
import { positionsView } from "./positions.js";
import { get, subscribe } from "./store.js";
import { figure } from "./table.js";

/** @type {any} */ let places;
/** @type {any} */ const fetched = {};

/** Draw the region into its place; what must be asked for is asked for when it is opened. */
export function insideRegion(place, details) {
  places = { card: h("div", {}), curves: h("div", {}), positions: h("div", {}), request: h("div", {}) };
  show(
    place,
    h("h3", {}, t("card")),
    places.card,
    h("h3", {}, t("curves")),
    places.curves,
    h("h3", {}, t("positions.title")),
    places.positions,
    places.request,
  );
  const draw = () => details.open && drawInside();
  details.addEventListener("toggle", draw);
  subscribe(["trace", "request", "scheme"], draw);
  draw();
}

async function drawInside() {
  const model = get().trace?.model;
  show(places.card, model ? figure(cardGrid(model), () => card(model)) : h("p", { class: "muted" }, t("nothing")));
  show(places.request, requestPanel());
  if (!model) return;
  show(places.curves, fetched.metrics ? curvesView(fetched.metrics) : scheduleView(model));
  if (fetched.positions?.d === model.d_model) show(places.positions, positionsView(fetched.positions));
  if (!embedded) await fetchRest(model);
}

async function fetchRest(model) {
  const pair = `${model.source}-${model.target}`;
  if (fetched.pair !== pair) {
    Object.assign(fetched, { pair, metrics: null });
    fetched.metrics = await fetchMetrics(model.source, model.target).catch(() => null);
    if (fetched.metrics) show(places.curves, curvesView(fetched.metrics));
  }
  if (fetched.positions?.d !== model.d_model) {
    fetched.positions = await fetchPositions(128, model.d_model).catch(() => null);
    if (fetched.positions) show(places.positions, positionsView(fetched.positions));
  }
}

/** What a file brings with it. */
export function bring(data) {
  if (data.positions) fetched.positions = data.positions;
  if (data.metrics) fetched.metrics = data.metrics;
}

function cardGrid(model) {
  return h(
    "dl",
    { class: "card-grid" },
    card(model).rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

function card(model) {
  const fields = [
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
  const value = (name) => (typeof model[name] === "number" ? model[name].toLocaleString("en") : model[name]);
  const pair = [t("languages"), `${languageName(model.source)} → ${languageName(model.target)}`];
  return {
    name: t("card"),
    columns: [t("setting"), t("value")],
    rows: [pair, ...fields.map((name) => [name, value(name)])],
  };
}

function requestPanel() {
  const { request } = get();
  if (!request || embedded) return null;
  const text = curl(request);
  const copy = h(
    "button",
    { type: "button", class: "quiet", onclick: () => navigator.clipboard?.writeText(text) },
    t("copy"),
  );
  return [h("h3", {}, t("request"), " ", copy), h("pre", { class: "scroll", tabindex: "0" }, h("code", {}, text))];
}
