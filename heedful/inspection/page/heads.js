/** All layers and heads of a kind, small: what each does at a glance. */

import { heat, ramps, sequential } from "./colour.js";
import { areRightToLeft, h, percent, roving } from "./dom.js";
import { t } from "./i18n.js";
import { get, set } from "./store.js";
import { figure } from "./table.js";
import { layerOf, matrix, shownKind, sizes } from "./weights.js";

/** The overview, with its table. */
export function headsOverview() {
  const kind = shownKind();
  const { layers, heads } = sizes(kind);
  const rows = [...Array(layers).keys()].map((layer) => row(kind, layer, heads));
  const grid = h("div", { class: "heads", role: "group", "aria-label": t("heads") }, rows);
  return figure(
    "heads",
    grid,
    () => tableOf(kind, layers, heads),
    t(get().trace.model.roles_from === "corpus" ? "heads.corpus" : "heads.sentence"),
  );
}

function row(kind, layer, heads) {
  const chosen = layerOf(kind) === layer;
  const buttons = [...Array(heads).keys()].map((head) => thumbnail(kind, layer, head, chosen));
  buttons.forEach((button, i) => button.addEventListener("keydown", (event) => roving(buttons, event, i, 1)));
  const mean = h(
    "button",
    {
      type: "button",
      class: "mean",
      "aria-pressed": String(chosen && !get().h.length),
      "aria-label": `${t("layer", { n: layer + 1 })}, ${t("mean")}`,
      onclick: () => set({ l: layer, h: [] }),
    },
    t("mean"),
  );
  return h(
    "div",
    { class: "layer" },
    h("div", { class: "layer-name" }, h("strong", {}, t("layer", { n: layer + 1 })), mean),
    h("div", { class: "thumbs" }, buttons),
  );
}

function thumbnail(kind, layer, head, chosenLayer) {
  const role = get().trace.heads[kind]?.[layer]?.[head];
  const pressed = chosenLayer && get().h.includes(head);
  const label = role ? nameOf(role) : "";
  const found = matrix(kind, layer, [head], { unit: "words", hide: false });
  const ramp = ramps(get().ramp);
  const picture = found
    ? heat(h("canvas", { "aria-hidden": "true", class: mirrored(found) }), found.values, found.rows.length, found.columns.length, (value) =>
        sequential(Math.sqrt(value), ramp),
      )
    : h("span", { class: "absent" }, "…");
  const inTabOrder = pressed ? get().h[0] === head : !chosenLayer || !get().h.length ? head === 0 : false;
  return h(
    "button",
    {
      type: "button",
      class: "thumb",
      "aria-pressed": String(pressed),
      "data-layer": layer,
      "data-head": head,
      tabindex: inTabOrder ? "0" : "-1",
      title: role ? tip(role) : null,
      "aria-label": `${t("layer", { n: layer + 1 })}, ${t("head", { n: head + 1 })}: ${label}`,
      onclick: (event) => choose(layer, head, event.shiftKey || event.ctrlKey || event.metaKey),
    },
    picture,
    h(
      "span",
      { class: "thumb-name" },
      h("span", { class: "muted" }, `${head + 1}`),
      " ",
      label,
      role?.share ? h("span", { class: "muted" }, ` ${Math.round(100 * role.share)}%`) : null,
    ),
  );
}

const mirrored = (found) => (areRightToLeft(found.columns.map((column) => column.label)) ? "mirrored" : null);

/** Click: this one; with shift: this one too. */
function choose(layer, head, add) {
  const { h: heads } = get();
  const same = layerOf(shownKind()) === layer;
  const next =
    add && same
      ? heads.includes(head)
        ? heads.filter((each) => each !== head)
        : [...heads, head].sort((a, b) => a - b)
      : [head];
  set({ l: layer, h: next });
  /** @type {any} */ (document.querySelector(`.thumb[data-layer="${layer}"][data-head="${head}"]`))?.focus();
}

/** One word for what a head does. */
const nameOf = (role) => t(`role.${role.label}`, { word: role.word });

function tip(role) {
  const best = Object.entries(role.shares)
    .sort((a, b) => b[1] - a[1])
    .slice(0, 4);
  return [
    ...best.map(([name, share]) => `${t(`role.${name}`, { word: role.word })} ${percent(share)}`),
    `${t("entropy")} ${percent(role.entropy)}`,
  ].join("\n");
}

function tableOf(kind, layers, heads) {
  const roles = get().trace.heads[kind];
  const names = Object.keys(roles[0][0].shares);
  const rows = [...Array(layers * heads).keys()].map((i) => {
    const role = roles[Math.floor(i / heads)][i % heads];
    return [
      `${Math.floor(i / heads) + 1}.${(i % heads) + 1}`,
      nameOf(role),
      ...names.map((name) => role.shares[name]),
      role.entropy,
    ];
  });
  return {
    name: t("heads"),
    columns: [t("layer.head"), t("label"), ...names.map((name) => t(`role.${name}`, { word: "…" })), t("entropy")],
    rows,
  };
}
