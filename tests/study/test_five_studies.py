"""The built-in studies hold everything that was printed, and docs/studies.md says where it is reproduced."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from mqlab.study import PublishedValue, Study, estimate, load_study, published_studies
from mqlab.systems import system

ROOT = Path(__file__).parents[2]
# How many values each study printed.
PRINTED = {
    "ibmmq-943-trace": 171, "jms-four-brokers": 37, "mqseries-msmq-2000": 193, "sonicmq-mqseries": 162,
    "sunmq-wmq-2003": 81,
}  # fmt: skip
# What each study shows: the beginnings of the titles of its tables and figures.
SHOWN = {
    "ibmmq-943-trace": [
        *(f"Figure {number} -" for number in range(1, 14)),
        *(f"Figure {number} table" for number in range(4, 14)),
    ],
    "jms-four-brokers": [
        "Illustration 1", "Diagram of", "Benchmark {scenario}", "Appendix 1:", "Appendix 2:", "Appendix 3:",
    ],
    "mqseries-msmq-2000": [*(f"Table {n}:" for n in range(1, 6)), *(f"Figure {n}:" for n in range(1, 9))],
    "sonicmq-mqseries": [
        "Bulk Data Transfer", "Broker Services", "Service Call Dispatch", "Sales Office Reporting", "Online Auctions",
        "Web Server Integration", "10MB Queue", "1MB Queue", "Appendix A", "Appendix B",
    ],
    "sunmq-wmq-2003": [
        "Queue, Non-Persistent, No Selectors", "Queue, Persistent, No Selectors",
        "Queue, Non-Persistent, with Selectors", "Queue, Persistent, with Selectors",
        "Publish/Subscribe, Non-Persistent, No Selectors",
        "Publish/Subscribe, DUPS_OK, Persistent", "Publish/Subscribe, AUTO_ACK, Persistent",
        "Publish/Subscribe, Durable, Persistent", "All Tests", "Appendix A", "Appendix B", "Appendix C",
    ],
}  # fmt: skip


@pytest.fixture(scope="module", params=sorted(PRINTED))
def study(request: pytest.FixtureRequest) -> Study:
    return load_study(request.param)


def test_all_five_are_built_in() -> None:
    assert published_studies() == sorted(PRINTED)
    assert sum(PRINTED.values()) == 644


def test_every_published_value_is_tied(study: Study) -> None:
    found = list(_script().coverage_of(study))
    assert len(found) == PRINTED[study.id]
    assert [value for value in found if isinstance(value, PublishedValue)] == []


def test_values_of_tables_are_in_an_exhibit(study: Study) -> None:
    """What a text says in passing is tied to a point or a claim; what stands in a table is shown as that table."""
    for tie in _script().coverage_of(study):
        assert not isinstance(tie, PublishedValue)
        if not tie.value.table.startswith("text:"):
            assert tie.exhibits, tie.value.table


def test_every_table_and_figure_has_its_exhibit(study: Study) -> None:
    titles = [exhibit.title for exhibit in study.exhibits]
    for beginning in SHOWN[study.id]:
        assert any(title.startswith(beginning) for title in titles), beginning


def test_a_quick_run_is_quick(study: Study) -> None:
    systems = max(1, len(study.stand_ins))
    budget = study.budget("quick")
    assert budget is not None
    assert estimate(study.points("quick")).least_seconds * systems < budget / 2, "the rest is for open verdicts"


def test_all_five_quick_runs_take_ten_minutes() -> None:
    """Of which Spark and the reports need less than two."""
    assert sum(load_study(name).budget("quick") or 0 for name in published_studies()) <= 490


def test_stand_ins_are_there_for_every_published_system_or_none(study: Study) -> None:
    assert set(study.stand_ins) in (set(), set(study.systems_published))


def test_successors_are_systems_of_the_lab(study: Study) -> None:
    for successors in study.successors.values():
        for name in successors:
            assert system(name).name == name


def test_every_scenario_is_in_a_claim_or_an_exhibit(study: Study) -> None:
    shown = {name for exhibit in study.exhibits for name in exhibit.of or study.scenarios}
    assert set(study.scenarios) == shown


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "scripts" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_documentation_are_fresh() -> None:
    document = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    script = _script()
    assert script.with_tables(document, *(table() for table in script.TABLES["studies.md"])) == document, (
        "run .venv/bin/python scripts/tables.py"
    )
