/** Copying text. Browsers lend the clipboard to secure pages only; elsewhere a selection is copied. */

import { h } from "./dom.js";
import { t } from "./i18n.js";

/** Copy a text. @returns {Promise<string>} what came of it, in words */
export async function copy(text) {
  const done = await navigator.clipboard?.writeText(text).then(() => true).catch(() => false);
  return t(done || copySelected(text) ? "copied" : "not.copied");
}

function copySelected(text) {
  const focused = /** @type {any} */ (document.activeElement);
  const area = h("textarea", { "aria-hidden": "true", class: "aside" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus({ preventScroll: true });
  return done;
}
