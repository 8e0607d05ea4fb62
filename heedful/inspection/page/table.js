/** Every plot as a table, and as a file for spreadsheets. */

import { h, show } from "./dom.js";
import { t } from "./i18n.js";

/** The figures whose table is shown; they are drawn anew whenever something is chosen. */
const opened = new Set();

/**
 * A figure with the two buttons below it.
 * @param {string} key which figure it is, whatever it shows
 * @param {any} plot
 * @param {() => {name: string, columns: string[], rows: (string | number)[][]}} data
 */
export function figure(key, plot, data, caption = null) {
  const place = h("div", { class: "table-place", hidden: true });
  const button = h(
    "button",
    { type: "button", class: "quiet", "aria-expanded": "false", onclick: () => flip(key, button, place, data) },
    t("table.show"),
  );
  if (opened.has(key)) flip(key, button, place, data);
  const csv = h("button", { type: "button", class: "quiet", onclick: () => download(data()) }, "CSV");
  return h(
    "figure",
    {},
    plot,
    h("figcaption", {}, caption ? h("span", {}, caption) : null, h("span", { class: "tools" }, button, csv)),
    place,
  );
}

function flip(key, button, place, data) {
  place.hidden = !place.hidden;
  button.setAttribute("aria-expanded", String(!place.hidden));
  button.textContent = t(place.hidden ? "table.show" : "table.hide");
  if (place.hidden) return opened.delete(key);
  opened.add(key);
  show(place, table(data()));
}

/** A plain table; the first column heads its row. */
export function table({ name, columns, rows }) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": name },
    h(
      "table",
      { class: "data" },
      h("caption", {}, name),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column) => h("th", { scope: "col" }, column)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map(([head, ...cells]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", dir: "auto" }, head),
            cells.map((cell) => h("td", { dir: "auto" }, cell)),
          ),
        ),
      ),
    ),
  );
}

/** Cells that a spreadsheet would take for a formula are kept from it. */
export function csvOf({ columns, rows }) {
  const cell = (value) => {
    const text = typeof value === "string" && /^[=+@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function download(data) {
  const url = URL.createObjectURL(new Blob(["\ufeff", csvOf(data)], { type: "text/csv" }));
  const link = h("a", { href: url, download: `${data.name.replace(/[^\p{L}\p{N}]+/gu, "-")}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
