/** Lines from the words that look to the words looked at: only the weights that matter, a colour and a dash per head. */

import { shownTitle } from "./attention-title.js";
import { DASHES, headColour } from "./colour.js";
import { h, isRightToLeft, oneStop, percent, readable, s } from "./dom.js";
import { t } from "./i18n.js";
import { legend } from "./legend.js";
import { get, set } from "./store.js";
import { figure } from "./table.js";
import { headsOf, layerOf, matrix, selectionOf, shownKind } from "./weights.js";

const MASS = 0.9; // of each row is drawn
const CROWD = 200; // lines can no longer be told apart: as long as no word is chosen ...
const MOST = 4; // ... each has no more than these
const ROW = 28;

/** Narrow screens get a narrow drawing, so that letters keep their size. GAP lies between the two columns of words. */
const measures = () =>
  innerWidth < 720 ? { WIDTH: 340, GAP: 72, LETTERS: 13 } : { WIDTH: 640, GAP: 200, LETTERS: 26 };

/** The view, with its table. */
export function linesView() {
  const kind = shownKind();
  const heads = get().h.length ? headsOf(kind) : [null];
  const maps = heads.map((head) => ({
    head,
    found: matrix(kind, layerOf(kind), head === null ? headsOf(kind) : [head]),
  }));
  const links = maps.flatMap(({ head, found }) =>
    found.rows.flatMap((_, i) =>
      largest(found, i).map((j, rank) => ({ head, i, j, rank, value: found.values[i * found.columns.length + j] })),
    ),
  );
  const found = maps[0].found;
  const drawn = links.filter(isDrawn(found, links.length > CROWD ? MOST : Infinity));
  const note = drawn.length < links.length && chosenRow() < 0 ? "lines.most" : "lines.note";
  const plot = h(
    "div",
    {},
    h("div", { class: "scroll" }, drawing(found, drawn)),
    legendOf(heads),
    h("p", { class: "small muted" }, [t(note, { n: MOST }), found.places ? t("note.hidden") : ""].join(" ")),
  );
  return figure("weights", plot, () => tableOf(found, links), shownTitle());
}

/** A head alone needs no dash to be told apart. */
const dash = (head, heads) => (head === null || heads < 2 ? "none" : DASHES[head % 8]);

/** The columns that hold 90 % of a row, largest first. */
function largest(found, i) {
  const width = found.columns.length;
  const order = [...Array(width).keys()].sort((a, b) => found.values[i * width + b] - found.values[i * width + a]);
  const kept = [];
  for (let sum = 0, k = 0; k < width && sum < MASS; k++) {
    const value = found.values[i * width + order[k]];
    if (value <= 0.01) break;
    kept.push(order[k]);
    sum += value;
  }
  return kept;
}

/** The word that looks, if one is chosen; else -1. */
const chosenRow = () => get()[selectionOf(shownKind(), "row", 0)[0]];

/** Of a chosen word all that matters; of all words at once the strongest of each. */
function isDrawn(found, most) {
  const word = chosenRow();
  return ({ i, rank }) => (word < 0 ? rank < most : found.rows[i].word === word);
}

const name = (item) => (get().unit === "pieces" ? readable(item.label) : item.label);

function drawing(found, links) {
  const kind = shownKind();
  const { WIDTH, GAP } = measures();
  const [side] = selectionOf(kind, "row", 0);
  const word = get()[side];
  const isChosen = (i) => word < 0 || found.rows[i].word === word;
  const height = ROW * Math.max(found.rows.length, found.columns.length) + 40;
  const [left, right] = [(WIDTH - GAP) / 2, (WIDTH + GAP) / 2];
  const y = (i) => 44 + ROW * i;
  const most = found.columns.map((_, j) =>
    Math.max(0, ...links.filter((link) => link.j === j).map((link) => link.value)),
  );
  const curves = links.map((link) =>
    s(
      "path",
      {
        class: "link",
        d: `M ${left + 8} ${y(link.i)} C ${left + GAP / 2} ${y(link.i)} ${right - GAP / 2} ${y(link.j)} ${right - 8} ${y(link.j)}`,
        "stroke-width": 1 + 5 * link.value,
        "stroke-opacity": 0.25 + 0.75 * link.value,
        "stroke-dasharray": dash(link.head, get().h.length),
        style: { stroke: link.head === null ? "var(--accent)" : headColour(link.head) },
      },
      s("title", {}, `${name(found.rows[link.i])} → ${name(found.columns[link.j])}: ${percent(link.value)}`),
    ),
  );
  const rows = found.rows.map((row, i) =>
    label(row, left, y(i), "end", word >= 0 && isChosen(i), word >= 0 && !isChosen(i), () =>
      set({ [side]: word === row.word ? -1 : row.word }),
    ),
  );
  const columns = found.columns.map((column, j) =>
    label(column, right, y(j), "start", word >= 0 && most[j] >= 0.5, most[j] === 0, null),
  );
  return s(
    "svg",
    {
      class: "lines",
      viewBox: `0 0 ${WIDTH} ${height}`,
      role: "group",
      "aria-label": shownTitle(),
      style: { "max-width": `${1.2 * WIDTH}px` },
    },
    s("text", { class: "axis", x: left, y: 18, "text-anchor": "end" }, t(`rows.${kind}`)),
    s("text", { class: "axis", x: right, y: 18 }, t(`columns.${kind}`)),
    curves,
    oneStop(rows),
    columns,
  );
}

/** From right to left a text starts at its right end. */
function directed(text, anchor) {
  if (!isRightToLeft(text)) return { "text-anchor": anchor };
  return { direction: "rtl", "text-anchor": { start: "end", end: "start" }[anchor] };
}

function label(item, x, y, anchor, strong, weak, choose) {
  const text = name(item);
  const { LETTERS } = measures();
  const shown = [...text].length > LETTERS ? `${[...text].slice(0, LETTERS - 1).join("")}…` : text;
  const props = choose
    ? {
        role: "button",
        "aria-pressed": String(strong),
        onclick: choose,
        onkeydown: (event) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            choose();
          }
        },
      }
    : {};
  return s(
    "g",
    { class: `token ${strong ? "strong" : ""} ${weak ? "weak" : ""}`, ...props },
    choose
      ? s("rect", {
          x: anchor === "end" ? x - 8 * LETTERS : x - 4,
          y: y - 13,
          width: 8 * LETTERS + 4,
          height: 26,
          rx: 4,
        })
      : null,
    s("text", { x, y, dy: "0.35em", ...directed(shown, anchor) }, shown, s("title", {}, text)),
  );
}

function legendOf(heads) {
  if (heads[0] === null) return null;
  return legend(
    heads.map((head) => ({ name: t("head", { n: head + 1 }), colour: head, dash: dash(head, heads.length), width: 3 })),
  );
}

function tableOf(found, links) {
  const rows = links.map((link) => [
    name(found.rows[link.i]),
    name(found.columns[link.j]),
    link.head === null ? t("mean") : link.head + 1,
    link.value.toFixed(3),
  ]);
  return {
    name: shownTitle(),
    columns: [t(`rows.${shownKind()}`), t(`columns.${shownKind()}`), t("head.column"), t("weight")],
    rows,
  };
}
