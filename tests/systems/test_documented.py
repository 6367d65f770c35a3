"""docs/systems.md has every system that comes with mqlab."""

from pathlib import Path

from mqlab.systems import SYSTEMS, system

DOCUMENT = Path(__file__).parents[2] / "docs" / "systems.md"


def test_every_system_is_described() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    lines = [f"| {name}: {system(name).title} |" for name in SYSTEMS if name != "external"]
    assert [line for line in lines if line not in text] == [], "run .venv/bin/python scripts/tables.py"
