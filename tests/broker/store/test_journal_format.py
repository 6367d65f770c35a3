"""The layout of the journal: structs and dtypes agree, every record has a kind, the document is fresh."""

import importlib.util
from pathlib import Path

import numpy as np

from mqlab.broker.core.durability.records import Record
from mqlab.broker.store import journal_format
from mqlab.broker.store.journal_format import KIND_OF, MAGIC, RECORD_KINDS, RECORD_OF, RecordLayout

ROOT = Path(__file__).parents[3]
LAYOUTS = {name: layout for name, layout in vars(journal_format).items() if isinstance(layout, RecordLayout)}


def test_every_record_has_a_kind_of_its_own() -> None:
    """A record whose body has changed also has its former kinds: the encoder writes the last, recovery reads all."""
    assert set(KIND_OF) == set(Record.__args__)
    assert [*RECORD_OF] == [kind.number for kind in RECORD_KINDS] == [*range(1, len(RECORD_KINDS) + 1)]
    for record, number in KIND_OF.items():
        assert number == max(kind.number for kind in RECORD_KINDS if kind.record is record)


def test_struct_and_dtype_read_the_same_values() -> None:
    for layout in LAYOUTS.values():
        values = tuple(MAGIC if field.type == "8 bytes" else 1 for field in layout.fields)
        (row,) = np.frombuffer(layout.pack(*values), dtype=layout.dtype)
        assert tuple(row.tolist()) == values
        assert layout.unpack(layout.pack(*values)) == values


def test_the_document_of_the_format_is_fresh() -> None:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "scripts" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    document = (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")
    tables = [table() for table in script.TABLES["journal.md"]]
    assert script.with_tables(document, *tables) == document, "run .venv/bin/python scripts/tables.py"
