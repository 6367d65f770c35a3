"""docs/events.md has every column of the event tables."""

from pathlib import Path

import pytest

from mqlab.events.schema import ROWS, EventRow, columns

DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_every_column_is_described(row: type[EventRow]) -> None:
    section = DOCUMENT.read_text(encoding="utf-8").partition(f"## `{row.table}`")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == [column.name for column in columns(row)]
    assert all(column.meaning in line for column, line in zip(columns(row), lines, strict=True)), (
        "run scripts/tables.py"
    )
