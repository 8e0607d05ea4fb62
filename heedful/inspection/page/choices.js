/** The popover of a word: what the model could have written there, and how likely each was. */

import { h, percent, readable, textOf } from "./dom.js";
import { t } from "./i18n.js";

/** @type {any} */ let open = null;

/** Close it. */
export function closeChoices() {
  if (!open) return;
  const { node, anchor } = open;
  const inside = node.contains(document.activeElement);
  open = null;
  node.remove();
  anchor.removeAttribute("aria-expanded");
  if (inside) anchor.focus();
}

document.addEventListener("keydown", (event) => event.key === "Escape" && closeChoices());
document.addEventListener("click", (event) => {
  if (open && !open.node.contains(event.target) && !open.anchor.contains(event.target)) closeChoices();
});

/** The text before a piece, and the piece itself: what the decoder is made to begin with. */
const prefixTo = (best, place, piece) => textOf([...best.pieces.slice(0, place), piece]);

/** The end of the text is none to begin with, nor is a part of a character. */
const canBegin = (piece, prefix) => piece !== "</s>" && !prefix.includes("\ufffd");

/** A row for each choice, with a bar as long as its probability. */
export function choiceRows(best, place, choose) {
  const token = best.tokens[place];
  return token.top.map((choice) => {
    const own = choice.id === token.id;
    const props = {
      class: own ? "choice own" : "choice",
      style: { "--p": `${100 * choice.p}%` },
      "aria-label": `${readable(choice.piece)} ${percent(choice.p)}`,
    };
    const inside = [
      h("span", { class: "piece", dir: "auto" }, choice.piece === "</s>" ? t("end") : readable(choice.piece)),
      h("span", { class: "p" }, percent(choice.p)),
    ];
    const prefix = prefixTo(best, place, choice.piece);
    if (!choose || !canBegin(choice.piece, prefix)) return h("li", {}, h("div", props, inside));
    return h("li", {}, h("button", { type: "button", ...props, onclick: () => choose(prefix) }, inside));
  });
}

/** Show the choices of a word under it. @param {((prefix: string) => void) | null} choose null: to look at only */
export function choices(anchor, best, word, choose) {
  closeChoices();
  const place = best.word_of_piece.indexOf(word);
  const several = best.word_of_piece.filter((owner) => owner === word).length > 1;
  const node = h(
    "div",
    { class: "popover", role: "dialog", "aria-label": t("choices"), tabindex: "-1" },
    h(
      "p",
      { class: "small muted" },
      t(choose ? "choices.choose" : "choices"),
      several ? ` ${t("choices.pieces")}` : "",
    ),
    h("ol", { class: "choices" }, choiceRows(best, place, choose)),
  );
  anchor.closest(".box").append(node);
  const box = anchor.getBoundingClientRect();
  const home = node.offsetParent.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left - home.left, home.width - node.offsetWidth - 8));
  node.style.setProperty("left", `${left}px`);
  node.style.setProperty("top", `${box.bottom - home.top + 8}px`);
  anchor.setAttribute("aria-expanded", "true");
  open = { node, anchor };
  node.focus({ preventScroll: true });
}
