"""The import arrows of the design: each module may import what stands before it, and nothing imports cli or web."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "heedful"

# A module may import those of its own line and of the lines above it that it names.
DATA = {
    "counting",
    "errors",
    "lock",
    "whole",
    "config",
    "capabilities",
    "recipe",
    "shortening",
    "grammar",
    "plain_text",
    "corpus",
    "catalogue",
    "download",
    "fetch",
    "lines",
    "tokenizer",
    "bpe_dropout",
    "encoding",
    "shards",
    "run_folder",
    "metrics",
    "language_id",
    "languages",
}
ALLOWED: dict[str, set[str]] = {
    "counting": set(),
    "telling": set(),
    "errors": set(),
    "extras": set(),
    "lock": {"errors"},
    "whole": set(),
    "config": {"errors"},
    "capabilities": {"config", "errors"},
    "recipe": {"config", "errors"},
    "shortening": {"config"},
    "run_folder": {"errors", "lock", "whole", "config", "recipe", "shortening"},
    "metrics": {"errors", "run_folder"},
    "grammar": {"errors", "whole", "grammar"},
    "plain_text": {"errors"},
    "corpus": {"counting", "errors", "plain_text"},
    "catalogue": {"errors"},
    "download": set(),
    "fetch": {"errors", "lock", "whole", "catalogue", "download"},
    "language_id": {"errors"},
    "languages": set(),
    "tokenizer": {"errors", "whole"},
    "bpe_dropout": {"tokenizer"},
    "words": {"languages", "tokenizer"},
    "encoding": {"errors", "bpe_dropout", "config", "corpus", "tokenizer"},
    "shards": {"errors", "whole", "corpus", "tokenizer", "encoding"},
    "lines": {"errors", "whole", "corpus", "plain_text"},
    "layout": set(),
    "tiles": {"layout"},
    "packed": {"layout", "tiles"},
    "batching": {"errors", "shards", "packed", "layout", "tiles"},
    "model": {"errors", "config", "capabilities", "layout", "tiles", "packed", "model"},
    "loss": {"packed"},
    "by_rows": {"capabilities"},
    "schedule": set(),
    "device": {"errors", "config", "extras", "model"},
    "sizes": {"config", "device", "model"},
    "checkpoint": {"errors", "whole", "config", "recipe", "run_folder", "tokenizer", "model"},
    "distributed": {"errors"},
    "mixed_precision": set(),
    "moving_average": set(),
    "r_drop": {"packed"},
    "cuda_graphs": set(),
    "cuda_step": {"cuda_graphs", "mixed_precision", "model", "packed", "r_drop", "tiles"},
    "passes": {
        "config",
        "sizes",
        "shards",
        "batching",
        "model",
        "loss",
        "by_rows",
        "r_drop",
        "device",
        "distributed",
        "cuda_step",
    },
    "checkpoint_writer": {"config", "checkpoint", "device"},
    "totals": {"distributed"},
    "trainer": {
        "errors",
        "config",
        "device",
        "batching",
        "model",
        "schedule",
        "checkpoint",
        "distributed",
        "moving_average",
        "passes",
        "totals",
    },
    "training": {
        "errors",
        "config",
        "shards",
        "batching",
        "model",
        "checkpoint",
        "checkpoint_writer",
        "device",
        "distributed",
        "totals",
        "trainer",
    },
    "search": set(),
    "sampling": {"search"},
    "engines": {
        "counting",
        "cuda_graphs",
        "errors",
        "config",
        "tokenizer",
        "packed",
        "tiles",
        "model",
        "search",
        "sampling",
        "checkpoint",
        "device",
        "export",
        "engines",
    },
    "cutting": {"languages", "tokenizer"},
    "splitting": {"cutting", "languages"},
    "combining": set(),
    "translation": {
        "errors",
        "combining",
        "config",
        "cutting",
        "languages",
        "tokenizer",
        "splitting",
        "engines",
        "search",
        "device",
    },
    "alignment": {
        "errors",
        "checkpoint",
        "config",
        "device",
        "export",
        "grammar",
        "languages",
        "model",
        "packed",
        "tokenizer",
        "translation",
        "words",
    },
    "alternatives": {"counting", "errors", "engines", "search", "tokenizer", "translation", "words"},
    "details": {"alignment", "alternatives", "engines", "translation"},
    "estimate": {
        "config",
        "counting",
        "device",
        "distributed",
        "errors",
        "model",
        "passes",
        "shards",
        "sizes",
        "trainer",
    },
    "cautions": {"checkpoint", "config", "corpus", "counting", "device", "languages", "shards", "sizes", "tokenizer"},
    "scores": {"languages"},
    "paper_bleu": {"languages", "scores"},
    "significance": {"errors", "scores"},
    "seed_significance": set(),
    "provenance": {"counting"},
    "starts": {"provenance", "run_folder"},
    "card": {"errors", "whole", "config", "corpus", "evaluation", "provenance", "run_folder", "starts"},
    "card_tables": {"card", "counting", "config", "evaluation", "starts"},
    "card_comparison": {
        "card",
        "card_tables",
        "config",
        "corpus",
        "evaluation",
        "schedule",
        "seed_significance",
        "significance",
    },
    "model_card": {
        "errors",
        "config",
        "encoding",
        "card",
        "card_tables",
        "checkpoint",
        "provenance",
        "run_folder",
        "shards",
        "sizes",
        "starts",
        "tokenizer",
        "trainer",
    },
    "preparing": {"checkpoint", "config", "corpus", "encoding", "errors", "run_folder", "shards", "tokenizer"},
    "planning": {
        "cautions",
        "checkpoint",
        "config",
        "corpus",
        "counting",
        "errors",
        "run_folder",
        "starts",
        "tokenizer",
    },
    "evaluation": {"counting", "errors", "corpus", "languages", "lines", "scores", "paper_bleu", "translation"},
    "export": {
        "errors",
        "extras",
        "whole",
        "capabilities",
        "config",
        "tokenizer",
        "model",
        "checkpoint",
        "lock",
        "export",
    },
    "attention_map": {"errors", "engines", "model", "packed", "tokenizer", "translation", "words"},
    "worked": {"attention_map"},
    "heads": {"attention_map", "grammar", "model", "translation"},
    "trace": {
        "errors",
        "attention_map",
        "card",
        "engines",
        "heads",
        "model",
        "search",
        "tokenizer",
        "translation",
        "worked",
    },
    "drawing": {"errors", "extras", "attention_map"},
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))
WITHOUT_TORCH = DATA | {
    "cli",
    "commands.train",
    "commands.translate",
    "commands.serve",
    "scores",
    "paper_bleu",
    "evaluation",
    "significance",
    "seed_significance",
    "provenance",
    "starts",
    "card",
    "card_tables",
    "card_comparison",
    "schedule",
}


def part_of(path: Path) -> str:
    """heedful/model/layers.py → model, heedful/loss.py → loss."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The parts of our package that a file imports when it is loaded or run, but not for its types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "heedful":
            names = [f"heedful.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        found |= {name.split(".")[1] for name in names if name.startswith("heedful.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    if part in ALLOWED:
        assert imports(path) <= ALLOWED[part] | {"__version__"}, (
            f"{part} must not import {imports(path) - ALLOWED[part]}"
        )
    assert not imports(path) & {"cli", "commands", "web"} or part in ("cli", "commands", "web", "__main__")


def test_the_arrows_have_no_circle() -> None:
    order: list[str] = []
    waiting = {part: needs - {part} for part, needs in ALLOWED.items()}
    while waiting:
        free = [part for part, needs in waiting.items() if needs <= set(order)]
        assert free, f"these import one another: {waiting}"
        order += free
        waiting = {part: needs for part, needs in waiting.items() if part not in free}


def test_no_import_is_relative() -> None:
    for path in MODULES:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level], path


def test_what_reads_text_and_what_answers_help_does_not_load_torch() -> None:
    names = sorted(f"heedful.{part}" for part in WITHOUT_TORCH)
    code = f"import importlib, sys; [importlib.import_module(n) for n in {names}]; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, check=False).returncode == 0
