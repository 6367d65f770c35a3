"""Writes into docs/studies.md where every published table and figure of the built-in studies is reproduced."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqlab.study import PublishedValue, Study, built_in_studies, load_study
from mqlab.study.printed import begins
from mqlab.study.tie import Tie, ties

DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "studies.md"
BEGIN: Final = "<!-- written by scripts/published_table.py -->"
END: Final = "<!-- end -->"
_HEAD: Final = "| study | printed | values | reproduced by |\n|---|---|---|---|\n"


def table() -> str:
    return _HEAD + "".join(line for name in built_in_studies() for line in _lines(load_study(name)))


def _lines(study: Study) -> Iterator[str]:
    """What was printed with values, in the order of the file; then what was drawn or described without any."""
    tables: dict[str, list[Tie]] = {}
    for tie in ties(study):
        if isinstance(tie, PublishedValue):
            raise ValueError(f"{study.id}: a value of {tie.table} is tied to nothing: {tie.system}, {tie.text}")
        tables.setdefault(tie.value.table, []).append(tie)
    for printed, found in tables.items():
        yield _line(study.id, printed, str(len(found)), "; ".join(_places(study, printed, found)))
    for exhibit in study.exhibits:
        if not any(begins(exhibit.title, printed) for printed in tables):
            yield _line(study.id, exhibit.title, "", exhibit.form)


def _places(study: Study, printed: str, found: list[Tie]) -> Iterator[str]:
    shown = [exhibit for exhibit in study.exhibits if begins(exhibit.title, printed)]
    if shown:
        yield from (f'{exhibit.form} "{exhibit.title}"' for exhibit in shown)
        return
    yield from dict.fromkeys(f"{tie.metric} of {tie.scenario}" for tie in found if tie.scenario)
    yield from dict.fromkeys(f"claim {tie.claim}" for tie in found if tie.claim)
    yield from dict.fromkeys(f"nothing: {tie.reason}" for tie in found if tie.reason)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def written(document: str) -> str:
    """The document with the table in its place."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}{END}{after}"


def main() -> int:
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
