"""A measured row is kept as soon as it is made, and used again."""

from pathlib import Path

import pytest
from msgspec import Struct

from heedful.errors import CheckpointError
from heedful.lab.table1.kept_rows import KeptRows


class Row(Struct, frozen=True):
    value: int


CONDITIONS = {"torch": "2.13.0", "machine": "a"}


def never() -> Row:
    raise AssertionError("made again")


def test_a_row_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "rows.json"
    assert KeptRows(path, CONDITIONS).get("first", Row, lambda: Row(1)) == Row(1)
    again = KeptRows(path, CONDITIONS)
    assert again.get("first", Row, never) == Row(1)


def test_what_was_made_before_a_failure_is_kept(tmp_path: Path) -> None:
    rows = KeptRows(tmp_path / "rows.json", CONDITIONS)
    rows.get("first", Row, lambda: Row(1))
    with pytest.raises(AssertionError, match="made again"):
        rows.get("second", Row, never)
    assert KeptRows(tmp_path / "rows.json", CONDITIONS).get("first", Row, never) == Row(1)


def test_rows_of_another_machine_are_refused_with_the_difference(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    KeptRows(path, CONDITIONS).get("first", Row, lambda: Row(1))
    with pytest.raises(CheckpointError, match=r"rows\.json: its rows were measured with machine a, and now it is b"):
        KeptRows(path, CONDITIONS | {"machine": "b"})


@pytest.mark.parametrize("content", ["", "{}", '{"conditions": {}, "rows": {}, "format": 9}'])
def test_a_foreign_file_is_refused_by_name(content: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"rows\.json: "):
        KeptRows(tmp_path / "rows.json", CONDITIONS)
