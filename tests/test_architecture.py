"""Imports point one way: a package imports those before it in ORDER, and nothing else of ours."""

import ast
import re
import subprocess
import sys
from pathlib import Path

from heedful import PACKAGE

ORDER = re.findall(
    r"\w+", "errors config data model baselines translate score train fast inspection lab api serve cli __main__"
)
# imported late
FORWARD = {("translate/open_engine", "fast"), ("train/gradients", "fast"), ("model/registry", "baselines")}
FILES = sorted(PACKAGE.rglob("*.py"))


def packages() -> list[str]:
    """Those that are there, in their order."""
    return [name for name in ORDER if (PACKAGE / name).is_dir()]


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix().removesuffix(".py")


def named(path: Path) -> list[str]:
    """The packages that a file imports, has a path into, or names as a module in a string; those for types count."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"^\s*from (\.|heedful import (?!PACKAGE|__version__))", text, flags=re.MULTILINE), path
    strings = [str(node.value) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    found = re.findall(r"^\s*(?:from|import) heedful\.(\w+)", text, flags=re.MULTILINE)
    found += [part for value in strings for part in re.findall(r"^heedful[./](\w+)[./\w]*$", value)]
    return found + re.findall(r"PACKAGE / \"(\w+)\"", text)


def test_imports_point_one_way() -> None:
    for path in FILES:
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        forward = [there for there in named(path) if here != "__init__" and ORDER.index(there) > ORDER.index(here)]
        allowed = [there for file, there in FORWARD if file == name_of(path) and (PACKAGE / there).is_dir()]
        assert forward == allowed, f"{path} must not import {forward}"


def test_packages_are_two_levels_deep_each_init_is_a_docstring_and_no_module_counts_the_folders_above_it() -> None:
    for path in set(FILES) - {PACKAGE / "__init__.py"}:
        text, parts = path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).parts
        assert len(parts) <= 3, path
        assert "__file__" not in text, path
        assert len(parts) > 1 or path.stem in ("__main__", "api", "errors"), path
        if path.name == "__init__.py":
            assert [type(node) for node in ast.parse(text).body] == [ast.Expr], path


def test_text_and_help_do_not_wait_for_torch() -> None:
    names = [f"heedful.{name_of(path).replace('/', '.')}" for path in FILES]
    light = [name for name in names if name.split(".", 1)[-1].startswith(("config", "data", "cli.main"))]
    code = f"import importlib, sys; [importlib.import_module(n) for n in {light}]; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=False).returncode == 0
