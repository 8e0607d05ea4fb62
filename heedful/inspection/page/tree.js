/** The beam as a tree: a column for each step, a row for each place of the beam, finished hypotheses below. */

import { areRightToLeft, h, isBrowsers, isRightToLeft, number, readable, s, textOf } from "./dom.js";
import { t } from "./i18n.js";
import { get, set } from "./store.js";
import { figure } from "./table.js";

const ROW = 40;
const GAP = 40;

/** @typedef {{step: number, row: number, node: any, parent: any, x: number, width: number, alive: boolean, best: boolean}} Place */

/** The tree, with its table; null where nothing was searched for. */
export function beamTree() {
  const { beam } = get().trace;
  if (!beam.steps.length) return null;
  const places = layout(beam);
  if (areRightToLeft(get().trace.hypotheses[0].words)) mirror(places);
  const line = h("p", { class: "reading", "aria-live": "polite" }, t("tree.hint"));
  const plot = h("div", {}, h("div", { class: "scroll" }, drawing(places, line)), line);
  return figure("tree", plot, () => tableOf(places), t("tree.caption", { width: beam.width, alpha: beam.alpha }));
}

const label = (node) => (node.done ? `⚑ ${number(node.score)}` : readable(node.piece));
const measure = (text) =>
  20 + [...text].reduce((sum, character) => sum + (/[\u1100-\u9fff\uac00-\uffef]/.test(character) ? 14 : 8), 0);

/** Where every node stands, who its parent is, whether anything came of it, and who won. @returns {Place[]} */
function layout(beam) {
  /** @type {any[]} */ const places = [];
  let x = 8;
  beam.steps.forEach((nodes, step) => {
    const width = Math.max(...nodes.map((node) => measure(label(node))));
    const taken = new Set(nodes.filter((node) => !node.done).map((node) => node.place));
    for (const node of nodes) {
      const row = node.done ? firstFree(taken) : node.place;
      taken.add(row);
      const parent =
        places.find((each) => each.step === step - 1 && !each.node.done && each.node.place === node.parent) ?? null;
      places.push({ step, node, parent, row, x, width: measure(label(node)), alive: node.done, best: false });
    }
    x += width + GAP;
  });
  const rank = (a, b) => b.node.score - a.node.score;
  const ended = places.filter((each) => each.node.done).sort(rank);
  ended.forEach((each, i) => {
    for (let at = each; at; at = at.parent) {
      at.alive = true;
      if (!i) at.best = true;
    }
  });
  return places;
}

/** Steps run as the text does. @param {Place[]} places */
function mirror(places) {
  const end = Math.max(...places.map((place) => place.x + place.width));
  places.forEach((place) => (place.x = end + 8 - place.x - place.width));
}

/** A finished hypothesis stands in the first row of its column where no live one is. */
function firstFree(taken) {
  let row = 0;
  while (taken.has(row)) row += 1;
  return row;
}

const ACROSS = { ArrowRight: 1, ArrowLeft: -1 };
const DOWN = { ArrowDown: 1, ArrowUp: -1 };

/** Where an arrow key leads: to the nearest row of the step beside this one, or up and down within the step. */
function neighbour(places, place, key) {
  const leads = (other) =>
    other.step === place.step
      ? Math.sign(other.row - place.row) === DOWN[key]
      : Math.abs(other.step - place.step) === 1 && Math.sign(other.x - place.x) === ACROSS[key];
  const rows = (other) => Math.abs(other.row - place.row);
  return places.filter(leads).sort((a, b) => rows(a) - rows(b))[0];
}

/** One node is in the tab order: the one that was last walked to. */
function walk(nodes, place) {
  nodes.forEach((node, i) => node.setAttribute("tabindex", i === place ? "0" : "-1"));
  nodes[place].focus();
}

function drawing(places, line) {
  const y = (place) => 20 + ROW * place.row;
  const width = Math.max(...places.map((place) => place.x + place.width)) + 16;
  const height = 40 + ROW * Math.max(...places.map((place) => place.row));
  const kind = (place) => `${place.best ? "best" : ""} ${place.alive ? "" : "pruned"} ${place.node.done ? "done" : ""}`;
  const edges = places
    .filter((place) => place.parent)
    .map((place) => {
      const on = place.parent.x < place.x ? 1 : -1;
      const x1 = place.parent.x + (on > 0 ? place.parent.width : 0);
      const x2 = place.x + (on > 0 ? 0 : place.width);
      const p = Math.exp(place.node.logp - place.parent.node.logp);
      return s("path", {
        class: `edge ${kind(place)}`,
        d: `M ${x1} ${y(place.parent)} C ${x1 + (on * GAP) / 2} ${y(place.parent)} ${x2 - (on * GAP) / 2} ${y(place)} ${x2} ${y(place)}`,
        "stroke-width": 1 + 3 * p,
      });
    });
  const nodes = places.map((place, i) => {
    const isNow = place.step === get().step;
    const node = s(
      "g",
      {
        class: `node ${kind(place)} ${isNow ? "now" : ""}`,
        tabindex: i ? "-1" : "0",
        role: "gridcell",
        "aria-colindex": place.step + 1,
        "aria-current": isNow ? "step" : null,
        "aria-label": reading(place),
        onclick: () => set({ step: place.step }),
        onfocus: () => (line.textContent = reading(place)),
        onmouseenter: () => (line.textContent = reading(place)),
        onkeydown: (event) => {
          const next = isBrowsers(event) ? null : neighbour(places, place, event.key);
          const chosen = event.key === "Enter" || event.key === " ";
          if (next || chosen) event.preventDefault();
          if (chosen) set({ step: place.step });
          if (next) walk(nodes, places.indexOf(next));
        },
      },
      s("rect", { x: place.x, y: y(place) - 14, width: place.width, height: 28, rx: 6 }),
      s(
        "text",
        {
          x: place.x + place.width / 2,
          y: y(place),
          dy: "0.35em",
          "text-anchor": "middle",
          direction: isRightToLeft(label(place.node)) ? "rtl" : null,
        },
        label(place.node),
      ),
    );
    return node;
  });
  const columns = Math.max(...places.map((place) => place.step)) + 1;
  return s(
    "svg",
    {
      class: "tree",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "grid",
      "aria-label": t("tree"),
      "aria-colcount": columns,
    },
    s("g", { "aria-hidden": "true" }, edges),
    gridRows(places, nodes),
  );
}

/** The nodes row by row, as a grid has them: a column is a step, and not every row has a node there. */
function gridRows(places, nodes) {
  const rows = [...new Set(places.map((place) => place.row))].sort((a, b) => a - b);
  return rows.map((row) =>
    s("g", { role: "row", "aria-rowindex": row + 1 }, nodes.filter((_, i) => places[i].row === row)),
  );
}

/** The words of a node from the beginning, and how likely they are. */
function reading(place) {
  const pieces = [];
  for (let at = place; at; at = at.parent) if (!at.node.done) pieces.unshift(at.node.piece);
  const fate = place.best ? t("tree.best") : place.alive ? "" : t("tree.pruned");
  const end = place.node.done ? t("tree.done", { score: number(place.node.score) }) : "";
  return [textOf(pieces), `log p ${number(place.node.logp)}`, end, fate].filter(Boolean).join(" · ");
}

function tableOf(places) {
  const rows = places.map((place) => [
    place.step + 1,
    place.node.done ? "⚑" : place.node.place + 1,
    label(place.node),
    place.node.logp,
    place.node.score ?? "",
    place.best ? t("tree.best") : place.alive ? "" : t("tree.pruned"),
  ]);
  return { name: t("tree"), columns: [t("step"), t("place"), t("piece"), "log p", t("score"), ""], rows };
}
