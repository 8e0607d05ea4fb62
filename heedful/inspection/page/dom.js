/** Making elements. Text from users becomes text nodes only, never HTML. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {Element} node
 * @param {Record<string, any>} props attributes; `onclick` and the like are listeners, `style` an object of CSS
 * @param {any[]} children nodes and texts; null is left out
 */
function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [key, css] of Object.entries(value)) /** @type {any} */ (node).style.setProperty(key, css);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element. @returns {any} */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** An SVG element. @returns {any} */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

const controlsIn = (node) => [...node.querySelectorAll("button, select, input, summary, [tabindex]")];

/** Put these into a node, instead of what is in it. The focus stays at the control that was at its place. */
export function show(node, ...children) {
  const focused = document.activeElement;
  const place = node.contains(focused) ? controlsIn(node).indexOf(focused) : -1;
  node.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  const control = place < 0 ? null : controlsIn(node)[place];
  if (control?.tagName === focused?.tagName) control?.focus({ preventScroll: true });
}

/** A piece as people read it: a hyphen says that it goes on a word. */
export function readable(piece) {
  if (piece === "▁") return "␣";
  return /^[\p{L}\p{N}]/u.test(piece) ? `\u2011${piece}` : piece.replaceAll("▁", " ").trim();
}

const bytesOf = (piece) => {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
  return byte ? [parseInt(byte[1], 16)] : [...new TextEncoder().encode(piece)];
};

/** The text that pieces spell. Some are the bytes of a character; one of which some are missing is "\ufffd". */
export function textOf(pieces) {
  return new TextDecoder().decode(Uint8Array.from(pieces.flatMap(bytesOf))).replaceAll("▁", " ").trim();
}

const RIGHT_TO_LEFT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/u;

/** Is this written from right to left? The first letter decides. */
export const isRightToLeft = (text) => RIGHT_TO_LEFT.test(text);

/** The direction of a row of words; each of them has one of its own. */
export const directionOf = (words) => (areRightToLeft(words) ? "rtl" : "ltr");

/** Are most of these words written from right to left? */
export function areRightToLeft(words) {
  const letters = words.filter((word) => /\p{L}/u.test(word.replace(/^<\/?s>$/, "")));
  return letters.filter(isRightToLeft).length * 2 > letters.length;
}

/** A share as people read it. */
export function percent(share) {
  if (share === 0) return "0 %";
  if (share >= 0.9995) return "100 %";
  return share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** A number with a true minus sign. */
export function number(value, digits = 2) {
  return value.toFixed(digits).replace("-", "−");
}

/** The value of a CSS variable, for canvases. */
export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A group of buttons of which one is pressed. @param {[string, string][]} choices value and label */
export function segmented(label, choices, value, choose) {
  return h(
    "div",
    { class: "segmented", role: "group", "aria-label": label },
    choices.map(([key, text]) =>
      h(
        "button",
        { type: "button", "aria-pressed": String(key === value), onclick: () => choose(key), "data-value": key },
        text,
      ),
    ),
  );
}

/** A check box with its label. */
export function toggle(text, checked, choose, title = null) {
  const box = h("input", { type: "checkbox", checked, onchange: () => choose(box.checked) });
  return h("label", { class: "toggle", title }, box, h("span", {}, text));
}

/** Is this key the browser's? Alt and an arrow go back and forth. */
export const isBrowsers = (event) => event.altKey || event.ctrlKey || event.metaKey;

/** One stop of the Tab key for a row of words: the one that was last reached. Arrow keys reach the others. */
export function oneStop(words, direction = "ltr") {
  words.forEach((word, i) => {
    word.setAttribute("tabindex", i ? "-1" : "0");
    word.addEventListener("focus", () => inTabOrder(words, word));
    word.addEventListener("keydown", (event) => roving(words, event, i, 1, direction));
  });
  return words;
}

const inTabOrder = (items, chosen) =>
  items.forEach((item) => item.setAttribute("tabindex", item === chosen ? "0" : "-1"));

/** Move the focus among items with the arrow keys; only one is in the tab order. */
export function roving(items, event, current, step, direction = "ltr") {
  const on = direction === "rtl" ? -1 : 1;
  const moves = {
    ArrowRight: on,
    ArrowLeft: -on,
    ArrowDown: step,
    ArrowUp: -step,
    Home: -current,
    End: items.length - 1 - current,
  };
  const move = moves[event.key];
  if (move === undefined || isBrowsers(event)) return;
  event.preventDefault();
  const next = items[Math.min(items.length - 1, Math.max(0, current + move))];
  inTabOrder(items, next);
  next.focus();
}
