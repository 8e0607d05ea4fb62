"""The whole page with its data as one HTML file that opens from disk.

The page's modules are put into one classic script, since browsers load no modules from `file://`: each becomes a
function that gives back what it exports. Nothing is fetched, and text reaches the page as JSON, never as HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from typing import Any

from heedful import PACKAGE

PAGE = PACKAGE / "inspection" / "page"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const) (\w+))", re.MULTILINE)


def html(data: Mapping[str, Any], title: str) -> str:
    """The page with its style, its script and its data in one file."""
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    page = re.sub(r"<title>.*?</title>", lambda _: f"<title>{escape(title)}</title>", page)
    page = re.sub(r'<link rel="icon"[^>]*>\n', "", page)
    page = re.sub(r'<link rel="stylesheet"[^>]*>', lambda _: f"<style>\n{style}</style>", page)
    page = re.sub(r'<script type="module"[^>]*></script>\n', "", page)
    page = page.replace('href="./"', 'href="#"')
    embedded = f'<script type="application/json" id="heedful-data">{_json(data)}</script>\n'
    scripts = f"{embedded}<script>\n{bundle()}</script>\n"
    assert scripts.count("</script>") == 2, "a module must not spell out the end of a script"
    return page.replace("</body>", scripts + "</body>")


def _json(data: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can take for markup."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def bundle() -> str:
    """All modules of the page as one script, each after those that it imports."""
    order: dict[str, str] = {}
    _collect("main", order)
    return '(() => {\n"use strict";\n' + "\n".join(order.values()) + "\n})();\n"


def _collect(name: str, order: dict[str, str]) -> None:
    """Add a module after those that it imports; our modules import one another in no circle."""
    if name in order:
        return
    source = (PAGE / f"{name}.js").read_text(encoding="utf-8")
    for _, other in _IMPORT.findall(source):
        _collect(other, order)
    exports = ", ".join(_EXPORT.findall(source))
    body = _IMPORT.sub(lambda match: f"const {{{match[1]}}} = {_variable(match[2])};\n", source)
    order[name] = f"const {_variable(name)} = (() => {{\n{_EXPORT.sub('', body)}return {{ {exports} }};\n}})();"


def _variable(module: str) -> str:
    return "module_" + module.replace("-", "_")
