"""Writes the tables of the documents that are made from the package itself:

docs/studies.md   the metrics; where every published table and figure of the built-in studies is reproduced
docs/systems.md   what each system that comes with mqlab can do, and what its word is worth
docs/events.md    the columns of the event tables
docs/journal.md   the layout of the broker's journal files
docs/broker.md    durability of the embedded broker's confirmations; which right each of its commands needs
"""

import sys
from collections.abc import Callable, Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Final

from mqlab.broker.security import commands
from mqlab.broker.store import journal_format
from mqlab.events.schema import ROWS, columns
from mqlab.runner.unsupported import unsupported_features
from mqlab.study import FEATURES, METRICS, PublishedValue, Study, built_in_studies, load_study
from mqlab.study.published.coverage import Coverage, coverage_of
from mqlab.study.published.match import reproduces
from mqlab.systems import SYSTEMS, system

DOCS: Final = Path(__file__).parents[1] / "docs"
BEGIN: Final = "<!-- written by scripts/tables.py -->"
END: Final = "<!-- end -->"


def of_metrics() -> str:
    rows = [[f"`{metric.name}`", metric.unit, metric.better, metric.meaning] for metric in METRICS.values()]
    return _table([["metric", "unit", "better", "meaning"], *rows])


def of_studies() -> str:
    rows = [["study", "printed", "values", "reproduced by"]]
    return _table(rows + [row for name in built_in_studies() for row in _printed(load_study(name))])


def _printed(study: Study) -> Iterator[list[str]]:
    """What was printed with values, in the order of the file; then what was drawn or described without any."""
    tables: dict[str, list[Coverage]] = {}
    for tie in coverage_of(study):
        if isinstance(tie, PublishedValue):
            raise ValueError(f"{study.id}: a value of {tie.table} is tied to nothing: {tie.system}, {tie.text}")
        tables.setdefault(tie.value.table, []).append(tie)
    for printed, found in tables.items():
        yield [study.id, printed, str(len(found)), "; ".join(_places(study, printed, found))]
    for exhibit in study.exhibits:
        if not any(reproduces(exhibit.title, printed) for printed in tables):
            yield [study.id, exhibit.title, "", exhibit.form]


def _places(study: Study, printed: str, found: list[Coverage]) -> Iterator[str]:
    shown = [exhibit for exhibit in study.exhibits if reproduces(exhibit.title, printed)]
    if shown:
        yield from (f'{exhibit.form} "{exhibit.title}"' for exhibit in shown)
        return
    yield from dict.fromkeys(f"{tie.metric} of {tie.scenario}" for tie in found if tie.scenario)
    yield from dict.fromkeys(f"claim {tie.claim}" for tie in found if tie.claim)
    yield from dict.fromkeys(f"nothing: {tie.reason}" for tie in found if tie.reason)


def of_durability() -> str:
    """Of the embedded broker, as reports have it."""
    settings = ("on", "off")
    synced, unsynced = (system(f"embedded:sync={sync}").durability() for sync in settings)
    rows = [
        ["a persistent send is confirmed", synced.persistent, unsynced.persistent],
        ["any other send is confirmed", synced.confirmed, unsynced.confirmed],
        ["a received message is gone", synced.acknowledged, unsynced.acknowledged],
    ]
    return _table([["", *(f"`sync: {sync}`" for sync in settings)], *rows])


def of_record_kinds() -> str:
    rows = [["kind", "record", "body, in this order"]]
    kinds = journal_format.RECORD_KINDS
    return _table(rows + [[str(kind.number), kind.record.__name__, ", ".join(kind.body) or "empty"] for kind in kinds])


def of_journal_fields() -> str:
    layouts = {
        name.lower().replace("_", " "): layout
        for name, layout in vars(journal_format).items()
        if isinstance(layout, journal_format.RecordLayout) and name not in journal_format.COMBINED
    }
    rows = [["part", "field", "type", "meaning"]]
    rows += [[name, *field] for name, layout in layouts.items() for field in layout.fields]
    return _table(rows)


def of_rights() -> str:
    return _table(commands.documented())


def of_events() -> str:
    sections = []
    for name, row in ROWS.items():
        rows = [["column", "type", "unit", "meaning"]]
        for column in columns(row):
            nullable = " or null" if column.nullable else ""
            rows.append([f"`{column.name}`", f"{column.type}{nullable}", column.unit, column.meaning])
        sections.append(f"\n## `{name}`\n\n{cleandoc(row.__doc__ or '')}\n\n{_table(rows)}")
    return "".join(sections) + "\n"


def of_systems() -> str:
    names = [name for name in sorted(SYSTEMS) if name != "external"]
    return "\n".join((_table(_features(names)), _table(_reasons(names)), _table(_worth(names))))


def _features(names: list[str]) -> list[list[str]]:
    """By the driver that each is used with if none is chosen."""
    found = {name: unsupported_features(system(name)) for name in names}
    rows = [["feature", *(f"{name} ({system(name).driver})" for name in names)]]
    return rows + [[feature, *("" if feature in found[name] else "yes" for name in names)] for feature in FEATURES]


def _reasons(names: list[str]) -> list[list[str]]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for feature, why in unsupported_features(system(name)).items():
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


def written(document: str, *tables: str) -> str:
    """The document with the tables in their places."""
    done = ""
    for text in tables:
        before, _, rest = document.partition(BEGIN)
        _, _, document = rest.partition(END)
        done += f"{before}{BEGIN}\n{text}{END}"
    return done + document


# By document: what makes its tables, in their order.
TABLES: Final[dict[str, tuple[Callable[[], str], ...]]] = {
    "studies.md": (of_metrics, of_studies), "systems.md": (of_systems,), "broker.md": (of_durability, of_rights),
    "journal.md": (of_record_kinds, of_journal_fields), "events.md": (of_events,),
}  # fmt: skip


def main() -> int:
    for name, tables in TABLES.items():
        document = DOCS / name
        made = written(document.read_text(encoding="utf-8"), *(table() for table in tables))
        document.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
