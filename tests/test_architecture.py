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
FORWARD = {("translate/opening", "fast"), ("train/gradients", "fast"), ("model/registry", "baselines")}  # imported late
WITHOUT_TORCH = ["config", "data", "cli.main"]
FILES = sorted(PACKAGE.rglob("*.py"))


def packages() -> list[str]:
    """Those that are there, in their order."""
    return [name for name in ORDER if (PACKAGE / name).is_dir()]


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix().removesuffix(".py")


def named(path: Path) -> list[str]:
    """The packages that a file imports, has a path into, or names as a module in a string; those for types count."""
    text = path.read_text(encoding="utf-8")
    strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    found = re.findall(r"^\s*(?:from|import) heedful\.(\w+)", text, flags=re.MULTILINE)
    found += [part for value in strings for part in re.findall(r"^heedful[./](\w+)[./\w]*$", str(value))]
    return found + re.findall(r"PACKAGE / \"(\w+)\"", text)


def test_imports_point_one_way() -> None:
    for path in FILES:
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        forward = [there for there in named(path) if here != "__init__" and ORDER.index(there) > ORDER.index(here)]
        allowed = [there for file, there in FORWARD if file == name_of(path) and (PACKAGE / there).is_dir()]
        assert forward == allowed, f"{path} must not import {forward}"


def test_the_package_below_the_top_is_two_levels_of_files_and_each_init_is_a_docstring() -> None:
    for path in FILES:
        assert len(path.relative_to(PACKAGE).parts) <= 3, path
        if path.name == "__init__.py" and path.parent != PACKAGE:
            (docstring,) = ast.parse(path.read_text(encoding="utf-8")).body
            assert isinstance(docstring, ast.Expr), path
        if path.parent == PACKAGE:
            assert path.stem in ("__init__", "__main__", "api", "errors"), path


def test_no_module_counts_the_folders_above_it() -> None:
    for path in FILES:
        assert "__file__" not in path.read_text(encoding="utf-8") or path == PACKAGE / "__init__.py", path


def test_text_and_help_do_not_wait_for_torch() -> None:
    names = [f"heedful.{name_of(path).replace('/', '.')}" for path in FILES]
    light = [name for name in names if name.split(".", 1)[-1].startswith(tuple(WITHOUT_TORCH))]
    code = f"import importlib, sys; [importlib.import_module(n) for n in {light}]; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=False).returncode == 0
