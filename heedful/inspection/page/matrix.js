/** One map, large: rows look at columns; every value can be read, by eye, by pointer and by keyboard. */

import { shownTitle } from "./attention-title.js";
import { heat, paint, ramps, sequential } from "./colour.js";
import { directionOf, h, isBrowsers, percent, readable } from "./dom.js";
import { t } from "./i18n.js";
import { get, set } from "./store.js";
import { figure } from "./table.js";
import { allowed, matrix, selectionOf, shownKind } from "./weights.js";

/** The map, with its table. */
export function matrixView() {
  const found = matrix();
  const line = h("p", { class: "reading", "aria-live": "polite" }, t("matrix.hint"));
  const plot = h("div", {}, h("div", { class: "scroll" }, grid(found, line)), scaleBar(), line, notes(found));
  return figure("weights", plot, () => tableOf(found), shownTitle());
}

const name = (item) => (get().unit === "pieces" ? readable(item.label) : item.label);
const special = (label) => (label === "</s>" || label === "<s>" ? "special" : "");

function grid(found, line) {
  const head = h(
    "tr",
    {},
    h("th", { class: "corner" }, h("span", { class: "small muted", dir: "ltr" }, axes(found))),
    found.columns.map((column) => header("column", column)),
  );
  const ramp = ramps(get().ramp);
  const rows = found.rows.map((row, i) =>
    h(
      "tr",
      {},
      header("row", row),
      found.columns.map((_, j) => cell(found, i, j, ramp)),
    ),
  );
  const node = h(
    "table",
    { class: "matrix", role: "grid", "aria-label": shownTitle(), dir: direction(found) },
    h("thead", {}, head),
    h("tbody", {}, rows),
  );
  const cells = [...node.querySelectorAll("td")];
  if (cells[0]) cells[0].tabIndex = 0;
  markChosen(h("div", {}, node));
  const tell = (event) => {
    const td = event.target.closest("td");
    if (td) line.textContent = reading(found, Number(td.dataset.i), Number(td.dataset.j));
  };
  node.addEventListener("mouseover", tell);
  node.addEventListener("focusin", tell);
  node.addEventListener("click", (event) => pin(found, event));
  node.addEventListener("keydown", (event) => moveIn(found, cells, event));
  return node;
}

/** Columns run as their text does. */
const direction = (found) => directionOf(found.columns.map((column) => column.label));

const axes = (found) => t(`axes.${shownKind()}`).replace("→", direction(found) === "rtl" ? "←" : "→");

function header(axis, item) {
  const scope = axis === "row" ? "row" : "col";
  return h(
    "th",
    { scope, class: `${axis} ${special(item.label)}`, "data-axis": axis, "data-word": item.word },
    h("span", { dir: "auto", title: name(item) }, name(item)),
  );
}

/** Set off the heads of the chosen words. */
export function markChosen(root) {
  const kind = shownKind();
  for (const head of root.querySelectorAll(".matrix th[data-axis]")) {
    const { axis } = head.dataset;
    const [side, word] = selectionOf(kind, axis, Number(head.dataset.word));
    head.classList.toggle("chosen", word >= 0 && get()[side] === word && (axis === "row" || kind !== "encoder"));
  }
}

function cell(found, i, j, ramp) {
  const place = i * found.columns.length + j;
  const value = found.values[place];
  if (!allowed(found, i, j))
    return h("td", {
      class: "masked",
      role: "gridcell",
      tabindex: "-1",
      "data-i": i,
      "data-j": j,
      "aria-label": t("masked"),
    });
  const { colour, ink } = paint(sequential(get().scale === "root" ? Math.sqrt(value) : value, ramp));
  const text = value >= 0.045 ? String(Math.round(100 * value)) : "";
  return h(
    "td",
    {
      role: "gridcell",
      tabindex: "-1",
      "data-i": i,
      "data-j": j,
      "aria-label": reading(found, i, j),
      title: reading(found, i, j),
      style: { "background-color": colour, color: ink },
    },
    text,
  );
}

/** One value in words. */
function reading(found, i, j) {
  const names = { row: name(found.rows[i]), column: name(found.columns[j]) };
  return allowed(found, i, j)
    ? t("reading", { ...names, share: percent(found.values[i * found.columns.length + j]) })
    : t("reading.masked", names);
}

function pin(found, event) {
  const node = event.target.closest("td, th");
  if (!node || node.classList.contains("corner")) return;
  const pick = (axis, item) => {
    const [side, word] = selectionOf(shownKind(), axis, item);
    return word < 0 ? {} : { [side]: word };
  };
  if (node.tagName === "TD") {
    const row = pick("row", found.rows[Number(node.dataset.i)].word);
    return set(
      shownKind() === "cross" ? { ...row, ...pick("column", found.columns[Number(node.dataset.j)].word) } : row,
    );
  }
  const [side, word] = selectionOf(shownKind(), node.dataset.axis, Number(node.dataset.word));
  if (word >= 0) set({ [side]: get()[side] === word ? -1 : word });
}

function moveIn(found, cells, event) {
  const current = cells.indexOf(event.target);
  if (event.key === "Enter" || event.key === " ") return (event.preventDefault(), pin(found, event));
  const width = found.columns.length;
  const [i, j] = [Math.floor(current / width), current % width];
  const on = direction(found) === "rtl" ? -1 : 1;
  const next = {
    ArrowRight: [i, j + on],
    ArrowLeft: [i, j - on],
    ArrowDown: [i + 1, j],
    ArrowUp: [i - 1, j],
    Home: [i, 0],
    End: [i, width - 1],
  }[event.key];
  if (!next || current < 0 || isBrowsers(event)) return;
  event.preventDefault();
  const [row, column] = [
    Math.min(found.rows.length - 1, Math.max(0, next[0])),
    Math.min(width - 1, Math.max(0, next[1])),
  ];
  cells[current].tabIndex = -1;
  cells[row * width + column].tabIndex = 0;
  cells[row * width + column].focus();
}

/** What the colours mean. */
function scaleBar() {
  const ramp = ramps(get().ramp);
  const values = Float32Array.from({ length: 101 }, (_, i) => i / 100);
  const colour = (value) => sequential(get().scale === "root" ? Math.sqrt(value) : value, ramp);
  const bar = heat(h("canvas", { "aria-hidden": "true" }), values, 1, values.length, colour);
  return h("div", { class: "scale small" }, "0 %", bar, "100 %");
}

function notes(found) {
  const texts = [
    found.causal ? t("note.causal") : get().trace.model.family ? null : t("note.padding"),
    found.places ? t("note.hidden") : null,
    get().unit === "words" ? t("note.words") : null,
  ];
  return h("p", { class: "small muted" }, texts.filter(Boolean).join(" "));
}

function tableOf(found) {
  const width = found.columns.length;
  const rows = found.rows.map((row, i) => [
    name(row),
    ...found.columns.map((_, j) => (allowed(found, i, j) ? found.values[i * width + j].toFixed(3) : t("masked"))),
  ]);
  return { name: shownTitle(), columns: ["", ...found.columns.map(name)], rows };
}
