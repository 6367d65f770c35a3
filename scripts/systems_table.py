"""Writes into docs/systems.md what each system that comes with mqlab can do, and what its word is worth."""

import sys
from pathlib import Path
from typing import Final

from mqlab.load.absence import lacks
from mqlab.study import FEATURES
from mqlab.systems import SYSTEMS, system

DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "systems.md"
BEGIN: Final = "<!-- written by scripts/systems_table.py -->"
END: Final = "<!-- end -->"


def tables() -> str:
    names = [name for name in sorted(SYSTEMS) if name != "external"]
    return "\n".join((_table(_features(names)), _table(_reasons(names)), _table(_worth(names))))


def _features(names: list[str]) -> list[list[str]]:
    """By the driver that each is used with if none is chosen."""
    found = {name: lacks(system(name)) for name in names}
    rows = [["feature", *(f"{name} ({system(name).driver})" for name in names)]]
    return rows + [[feature, *("" if feature in found[name] else "yes" for name in names)] for feature in FEATURES]


def _reasons(names: list[str]) -> list[list[str]]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for feature, why in lacks(system(name)).items():
            reasons.setdefault((feature, why), []).append(name)
    order = list(FEATURES)
    listed = sorted(reasons.items(), key=lambda one: (order.index(one[0][0]), one[1]))
    return [["not there", "in", "because"], *([feature, ", ".join(who), why] for (feature, why), who in listed)]


def _worth(names: list[str]) -> list[list[str]]:
    rows = [["system", "version", "drivers", "syncs", "a persistent send is confirmed", "a received message is gone"]]
    for name in names:
        one = system(name)
        worth = one.durability()
        rows.append([
            f"{name}: {one.title}", one.describe()["version"], ", ".join(one.drivers), worth.syncs, worth.persistent,
            worth.acknowledged,
        ])  # fmt: skip
    return rows


def _table(rows: list[list[str]]) -> str:
    head, *rest = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)
    return head + "|---" * len(rows[0]) + "|\n" + "".join(rest)


def written(document: str) -> str:
    """The document with the tables in their place."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}{END}{after}"


def main() -> int:
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
