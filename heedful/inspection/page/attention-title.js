/** What is shown, in words. */

import { t } from "./i18n.js";
import { get } from "./store.js";
import { headsOf, layerOf, shownKind } from "./weights.js";

/** Kind, layer and heads. */
export function shownTitle() {
  const kind = shownKind();
  const heads = get().h.length
    ? headsOf(kind)
        .map((head) => head + 1)
        .join(", ")
    : t("mean");
  return t("title", { kind: t(`kind.${kind}`), layer: layerOf(kind) + 1, heads });
}
