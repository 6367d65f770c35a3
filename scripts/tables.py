"""Writes the tables of the documents that are generated from the package:

docs/studies.md   the metrics; where every published table and figure of the built-in studies is reproduced
docs/systems.md   the features and the durability of each system that comes with mqlab
docs/events.md    the columns of the event tables
docs/journal.md   the layout of the broker's journal files
docs/broker.md    durability of the embedded broker's confirmations; which right each of its commands needs
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from typing import Final

from mqlab.broker.security import commands
from mqlab.broker.store import journal_format
from mqlab.events.schema import ROWS, columns
from mqlab.runner.capability import unsupported_features
from mqlab.study import FEATURES, METRICS, Point, PublishedValue, Study, load_study, published_studies
from mqlab.study.language.faults import FAULT_KINDS
from mqlab.study.language.parameters import FULL
from mqlab.study.published import PublishedEntry, reproduces, subject_of
from mqlab.systems import SYSTEMS, system

DOCS: Final = Path(__file__).parents[1] / "docs"
BEGIN: Final = "<!-- written by scripts/tables.py -->"
END: Final = "<!-- end -->"


@dataclass(frozen=True)
class Coverage:
    """A metric of a scenario with the exhibits that show it under the published title; or a claim; or a reason."""

    value: PublishedValue
    scenario: str = ""
    metric: str = ""
    exhibits: tuple[str, ...] = ()
    claim: str = ""
    reason: str = ""


def coverage_of(study: Study) -> Iterator[Coverage | PublishedValue]:
    """Yield the coverage of every published value in the order of the file, or the value itself if it has none."""
    points = {name: study.points(FULL, [name]) for name in study.scenarios}
    for value in study.published:
        yield _measured_coverage(study, value, points) or _prose_coverage(study, value) or value


def _measured_coverage(study: Study, value: PublishedValue, points: dict[str, list[Point]]) -> Coverage | None:
    meaning = value.meaning
    if meaning is None or not subject_of(value, study.systems_published):
        return None
    entry = PublishedEntry(value)
    for scenario in study.scenarios.values():
        candidates = points[scenario.name] if value.scenario in scenario.published else []
        if any(entry.matches(point, meaning[0], value.over) for point in candidates):
            shown = tuple(each.title for each in study.exhibits if reproduces(each.title, value.table))
            return Coverage(value, scenario.name, meaning[0], shown)
    return None


def _prose_coverage(study: Study, value: PublishedValue) -> Coverage | None:
    prose = next((prose for prose in study.prose if prose.covers(value)), None)
    return None if prose is None else Coverage(value, claim=prose.claim, reason=prose.reason)


def faults_table() -> str:
    amounts = {"": "", "time": " 20ms", "percent": " 1%"}
    rows = [
        [f"`{name}{amounts[kind.amount]} at 5s{' for 2s' if kind.lasts else ''}`", kind.target, kind.meaning]
        for name, kind in FAULT_KINDS.items()
    ]
    return _table([["fault", "of the", "what happens"], *rows])


def metrics_table() -> str:
    rows = [[f"`{metric.name}`", metric.unit, metric.better, metric.meaning] for metric in METRICS.values()]
    return _table([["metric", "unit", "better", "meaning"], *rows])


def studies_table() -> str:
    rows = [["study", "printed", "values", "reproduced by"]]
    return _table(rows + [row for name in published_studies() for row in _study_rows(load_study(name))])


def _study_rows(study: Study) -> Iterator[list[str]]:
    """Yield a row for each published table with values, then one for each exhibit without published values."""
    tables: dict[str, list[Coverage]] = {}
    for coverage in coverage_of(study):
        if isinstance(coverage, PublishedValue):
            raise ValueError(f"{study.id}: nothing covers {coverage.table}: {coverage.system}, {coverage.text}")
        tables.setdefault(coverage.value.table, []).append(coverage)
    for table, covered in tables.items():
        yield [study.id, table, str(len(covered)), "; ".join(_reproductions(study, table, covered))]
    for exhibit in study.exhibits:
        if not any(reproduces(exhibit.title, table) for table in tables):
            yield [study.id, exhibit.title, "", exhibit.form]


def _reproductions(study: Study, table: str, covered: list[Coverage]) -> Iterator[str]:
    exhibits = [exhibit for exhibit in study.exhibits if reproduces(exhibit.title, table)]
    if exhibits:
        yield from (f'{exhibit.form} "{exhibit.title}"' for exhibit in exhibits)
        return
    yield from dict.fromkeys(f"{coverage.metric} of {coverage.scenario}" for coverage in covered if coverage.scenario)
    yield from dict.fromkeys(f"claim {coverage.claim}" for coverage in covered if coverage.claim)
    yield from dict.fromkeys(f"nothing: {coverage.reason}" for coverage in covered if coverage.reason)


def durability_table() -> str:
    """Return the durability of the embedded broker, as in reports."""
    settings = ("on", "off")
    synced, unsynced = (system(f"embedded:sync={sync}").durability() for sync in settings)
    rows = [
        ["a persistent send is confirmed", synced.persistent, unsynced.persistent],
        ["any other send is confirmed", synced.confirmed, unsynced.confirmed],
        ["a received message is gone", synced.acknowledged, unsynced.acknowledged],
    ]
    return _table([["", *(f"`sync: {sync}`" for sync in settings)], *rows])


def record_kinds_table() -> str:
    rows = [["kind", "record", "body, in this order"]]
    kinds = journal_format.RECORD_KINDS
    return _table(rows + [[str(kind.number), kind.record.__name__, ", ".join(kind.body) or "empty"] for kind in kinds])


def journal_fields_table() -> str:
    layouts = {
        name.lower().replace("_", " "): layout
        for name, layout in vars(journal_format).items()
        if isinstance(layout, journal_format.RecordLayout) and name not in journal_format.COMBINED
    }
    rows = [["part", "field", "type", "meaning"]]
    rows += [[name, *field] for name, layout in layouts.items() for field in layout.fields]
    return _table(rows)


def rights_table() -> str:
    rows = [["protocol", "command", "needs"]]
    tables = (("native frame", commands.FRAMES), ("admin request", commands.ADMIN_REQUESTS), ("HTTP", commands.PAGES))
    for protocol, table in tables:
        rows += [
            [protocol, f"`{name}`", "; ".join(requirement.text for requirement in needs)]
            for name, needs in table.items()
        ]
    for protocol, translated in (("STOMP", commands.STOMP), ("MQTT", commands.MQTT), ("AMQP", commands.AMQP)):
        rows += [
            [protocol, f"`{name}`", "as " + ", ".join(f"`{frame}`" for frame in frames) if frames else "nothing"]
            for name, frames in translated.items()
        ]
    return _table(rows)


def events_tables() -> str:
    sections = []
    for name, row in ROWS.items():
        rows = [["column", "type", "unit", "meaning"]]
        for column in columns(row):
            nullable = " or null" if column.nullable else ""
            rows.append([f"`{column.name}`", f"{column.type}{nullable}", column.unit, column.meaning])
        sections.append(f"\n## `{name}`\n\n{cleandoc(row.__doc__ or '')}\n\n{_table(rows)}")
    return "".join(sections) + "\n"


def systems_tables() -> str:
    names = [name for name in sorted(SYSTEMS) if name != "external"]
    return "\n".join((_table(_features(names)), _table(_reasons(names)), _table(_durability(names))))


def _features(names: list[str]) -> list[list[str]]:
    """Return the features of each system with its default driver."""
    lacking = {name: unsupported_features(system(name)) for name in names}
    rows = [["feature", *(f"{name} ({system(name).driver})" for name in names)]]
    return rows + [[feature, *("" if feature in lacking[name] else "yes" for name in names)] for feature in FEATURES]


def _reasons(names: list[str]) -> list[list[str]]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for feature, reason in unsupported_features(system(name)).items():
            reasons.setdefault((feature, reason), []).append(name)
    order = list(FEATURES)
    listed = sorted(reasons.items(), key=lambda item: (order.index(item[0][0]), item[1]))
    rows = ([feature, ", ".join(systems), reason] for (feature, reason), systems in listed)
    return [["missing feature", "systems", "reason"], *rows]


def _durability(names: list[str]) -> list[list[str]]:
    rows = [["system", "version", "drivers", "syncs", "a persistent send is confirmed", "a received message is gone"]]
    for name in names:
        chosen = system(name)
        durability = chosen.durability()
        rows.append([
            f"{name}: {chosen.title}", chosen.describe()["version"], ", ".join(chosen.drivers), durability.syncs,
            durability.persistent, durability.acknowledged,
        ])  # fmt: skip
    return rows


def _table(rows: list[list[str]]) -> str:
    head, *rest = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)
    return head + "|---" * len(rows[0]) + "|\n" + "".join(rest)


def with_tables(document: str, *tables: str) -> str:
    """Return the document with the tables in place of the old ones."""
    finished = ""
    for text in tables:
        before, _, rest = document.partition(BEGIN)
        _, _, document = rest.partition(END)
        finished += f"{before}{BEGIN}\n{text}{END}"
    return finished + document


# The functions that make the tables of each document, in their order.
TABLES: Final[dict[str, tuple[Callable[[], str], ...]]] = {
    "studies.md": (faults_table, metrics_table, studies_table), "systems.md": (systems_tables,),
    "broker.md": (durability_table, rights_table),
    "journal.md": (record_kinds_table, journal_fields_table), "events.md": (events_tables,),
}  # fmt: skip


def main() -> int:
    for name, tables in TABLES.items():
        document = DOCS / name
        text = with_tables(document.read_text(encoding="utf-8"), *(table() for table in tables))
        document.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
