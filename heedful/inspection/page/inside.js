/** Region 4: what lies behind: positions, training, the model's card, and the last request. */

import { curl, embedded, fetchModel, fetchPositions, watchMetrics } from "./api.js";
import { cardView } from "./card.js";
import { copy } from "./clipboard.js";
import { curvesView, scheduleView } from "./curves.js";
import { h, show } from "./dom.js";
import { t } from "./i18n.js";
import { positionsView } from "./positions.js";
import { isSame, nothingYet } from "./sentences.js";
import { get, subscribe } from "./store.js";

/** @type {any} */ let places;
/** @type {any} */ const fetched = { models: {} };
let turn = 0;

/** Draw the region into its place; what must be asked for is asked for when it is opened. */
export function insideRegion(place, details) {
  places = { card: h("div", {}), curves: h("div", {}), positions: h("div", {}), request: h("div", {}) };
  places.known = h(
    "div",
    { hidden: true },
    h("h3", {}, t("curves")),
    places.curves,
    h("h3", {}, t("positions.title")),
    places.positions,
  );
  show(place, h("h3", {}, t("card")), places.card, places.known, places.request);
  const draw = () => (details.open ? drawInside() : close());
  details.addEventListener("toggle", draw);
  subscribe(["trace", "whole", "from", "to", "locked", "request", "scheme"], draw);
  draw();
}

function close() {
  turn += 1;
  stopWatching();
}

async function drawInside() {
  const mine = ++turn;
  show(places.request, requestPanel());
  const model = await shownModel();
  if (mine !== turn) return;
  places.known.hidden = !model;
  if (!model) return show(places.card, h("p", { class: "muted" }, nothingYet()));
  drawCard(model);
  drawCurves(model);
  drawPositions(model);
  if (!embedded) await fetchRest(model);
}

/** The model that is looked into; as long as no sentence is, that of the chosen languages. */
async function shownModel() {
  const { trace, whole, from, to } = get();
  if (trace || embedded || !to) return trace?.model;
  return modelOf(whole && !isSame() ? whole.source.language : from, to);
}

/** What the server says of a model, once it has said it. */
async function modelOf(source, target) {
  const pair = `${source}-${target}`;
  fetched.models[pair] ??= await fetchModel(source, target).catch(() => undefined);
  return fetched.models[pair];
}

function drawCard(model) {
  show(places.card, cardView(model, fetched.card ?? null));
}

/** What the run wrote down; without a run, the rate that the settings ask for. */
function drawCurves(model) {
  const { metrics } = fetched;
  show(places.curves, metrics?.step.length ? curvesView(metrics) : scheduleView(model));
}

/** The sinusoids of §3.5, unless the model has learned vectors in their place, or none. */
function drawPositions(model) {
  if (!hasSinusoids(model)) {
    const why = model.positions === "learned" ? "positions.learned" : "positions.none";
    return show(places.positions, h("p", { class: "muted" }, t(why)));
  }
  if (fetched.positions?.d === model.d_model) show(places.positions, positionsView(fetched.positions));
}

const hasSinusoids = (model) => model.positions === "sinusoidal";

async function fetchRest(model) {
  const pair = `${model.source}-${model.target}`;
  if (fetched.pair !== pair) {
    Object.assign(fetched, { pair, metrics: null, card: null });
    stopWatching();
    fetched.card = (await modelOf(model.source, model.target))?.card ?? null;
    drawCard(model);
  }
  if (!watching) watch(model);
  if (fetched.positions?.d !== model.d_model && hasSinusoids(model)) {
    fetched.positions = await fetchPositions(128, model.d_model).catch(() => null);
    drawPositions(model);
  }
}

/** @type {AbortController | null} */ let watching = null;

function stopWatching() {
  watching?.abort();
  watching = null;
}

/** Curves that grow while the run is going on. */
function watch(model) {
  const mine = (watching = new AbortController());
  const tell = (name, { step, validation }) => {
    const before = name === "more" && fetched.metrics ? fetched.metrics : { step: [], validation: [] };
    fetched.metrics = { step: [...before.step, ...step], validation: [...before.validation, ...validation] };
    drawCurves(model);
  };
  const end = (ended) => ended && watching === mine && (watching = null);
  watchMetrics(model.source, model.target, mine.signal, tell)
    .catch(() => true)
    .then(end);
}

/** What a file brings with it. */
export function bring(data) {
  if (data.positions) fetched.positions = data.positions;
  if (data.metrics) fetched.metrics = data.metrics;
  if (data.card) fetched.card = data.card;
}

function requestPanel() {
  const { request } = get();
  if (!request || embedded) return null;
  const text = curl(request);
  const told = h("span", { class: "small muted", role: "status" });
  const tell = async () => (told.textContent = await copy(text));
  const button = h("button", { type: "button", class: "quiet", onclick: tell }, t("copy"));
  return [h("h3", {}, t("request"), " ", button, told), h("pre", { class: "scroll", tabindex: "0" }, h("code", {}, text))];
}
