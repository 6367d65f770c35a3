"""A capacity search in a report: what counts as a run that held the goal, what was found, and what is asked next."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mqlab.cli.app import app_with
from mqlab.events.folder import RunFolder
from mqlab.report import write_report
from mqlab.report.capacity.section import capacity_sections, sentence
from mqlab.report.capacity.trials import PointSearch, next_runs, searches
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.answer import answer
from mqlab.report.render.content import Figure, Prose, Table
from mqlab.report.render.json_document import as_json
from mqlab.study import Point, load_study
from mqlab.study.capacity.points import at_rate
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns

STUDY = """
study: sized
title: How much it takes
scenarios:
  load: {queues: 1, producers: 1, consumers: 1, message: {size: 1KiB}, find: "latency.p99 < 10ms, within 5%"}
scales:
  quick: {phases: {warmup: 1s, measure: 3s}, repeat: {until: none, most: 1}}
"""
PEAK = 8000.0


class Searched:
    """Made-up runs of a search: one call for each."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "study.yaml").write_text(STUDY)
        self.made = SyntheticRuns(load_study(folder))
        self.made.meta |= {"study": "sized", "scale": "quick", "searched": []}
        (self.point,) = self.made.study.points("quick")
        self.made.measure("load", "rate.sent", PEAK)
        self.made.run("load")

    def at(
        self, rate: float, latency: float | None, *, sent: float = 1.0, observations: int = 5000, **run: str
    ) -> None:
        """`sent`: the share of the planned rate. None: the run has no measures."""
        point: Point = at_rate(self.point, rate)
        if (document := point.model_dump(mode="json")) not in self.made.meta["searched"]:
            self.made.meta["searched"].append(document)
        number = self.made.run("load", point=point.name, **run)  # type: ignore[arg-type] # its texts alone
        if latency is None:
            return
        values = {"latency.p50": (latency / 3, "s"), "latency.p99": (latency, "s"), "rate.sent": (sent * rate, "/s")}
        place = {"run": number, "scenario": "load", "point": point.name, "system": "embedded", "repetition": 1}
        for metric, (value, unit) in values.items():
            row = {**place, "metric": metric, "value": value, "unit": unit}
            self.made.rows["run_measures"].append({**row, "observations": observations if unit == "s" else None})
            if ("load", point.name, "embedded", metric) not in self.made.values:
                self.made.measure("load", metric, value, point=point.name)


@pytest.fixture
def searched(tmp_path: Path) -> Searched:
    return Searched(tmp_path / "study")


def only(results: RunResults) -> PointSearch:
    (search,) = searches(results)
    return search


def test_it_begins_at_shares_of_the_peak(searched: Searched, write: Write) -> None:
    asked = next_runs(RunResults.of(write(searched.made)))
    assert [(request.system, request.point.name, request.runs) for request in asked] == [
        ("embedded", "rate=2k/s", 1), ("embedded", "rate=4k/s", 1), ("embedded", "rate=6k/s", 1),
        ("embedded", "rate=8k/s", 1),
    ]  # fmt: skip
    assert {request.point.rate for request in asked} == {2000.0, 4000.0, 6000.0, 8000.0}


@pytest.mark.parametrize(
    ("run", "outcome", "reason"),
    [
        ({"latency": 0.0099}, "held", ""),
        ({"latency": 0.010}, "missed", "latency.p99 was 10 ms"),
        ({"latency": 0.002, "sent": 0.9}, "missed", "only 3,600/s of the planned 4k/s were sent"),
        ({"latency": 0.002, "observations": 900}, "missed", "900 independent observations are too few for latency.p99"),
        ({"latency": None, "status": "failed", "reason": "2 lost"}, "missed", "failed: 2 lost"),
        ({"latency": None, "status": "incomplete", "reason": "it ended"}, "missed", "incomplete: it ended"),
        ({"latency": 0.002, "unsteady": "the backlog grew"}, "missed", "the backlog grew"),
        ({"latency": 0.002, "disturbed": "cc1"}, "held", "; cc1"),
        ({"latency": 0.02, "disturbed": "cc1"}, "unknown", "latency.p99 was 20 ms; cc1"),
        ({"latency": None, "disturbed": "cc1"}, "unknown", "latency.p99 was not measured; cc1"),
    ],
)
def test_when_a_run_holds_the_goal(
    searched: Searched, write: Write, run: dict[str, float | str | None], outcome: str, reason: str
) -> None:
    searched.at(4000.0, **run)  # type: ignore[arg-type] # the cases have arguments of every kind
    (trial,) = only(RunResults.of(write(searched.made))).trials
    assert (trial.rate, trial.outcome, trial.reason) == (4000.0, outcome, reason)


@pytest.fixture
def found(searched: Searched) -> Searched:
    for rate, latency in ((2000.0, 0.002), (4000.0, 0.004), (6000.0, 0.014), (8000.0, 2.0)):
        searched.at(rate, latency)
    for rate, latency in ((4430.0, 0.005), (4900.0, 0.0065), (5420.0, 0.011)):
        searched.at(rate, latency)
    searched.at(5100.0, 0.0101)
    for latency in (0.0071, 0.0069, 0.012, 0.0069):
        searched.at(4900.0, latency)
    searched.at(5100.0, 0.0103)
    searched.at(5100.0, 0.0102)
    return searched


def test_what_was_found_is_said_first(found: Searched, write: Write) -> None:
    results = RunResults.of(write(found.made))
    expected = (
        "embedded takes 4900/s within latency.p99 < 10ms, confirmed in 4 of 5 runs; 3 of 3 runs missed it at 5100/s "
        "(latency.p99 was 10.2 ms); the limit lies between 4430/s and 5100/s."
    )
    assert next_runs(results) == []
    assert sentence(only(results)) == answer(results, []) == expected


def test_the_section_has_the_sentence_the_curve_and_every_rate(found: Searched, write: Write) -> None:
    (section,) = capacity_sections(RunResults.of(write(found.made)))
    prose, figure, table = section.blocks
    assert isinstance(prose, Prose)
    assert isinstance(figure, Figure)
    assert isinstance(table, Table)
    assert prose.text.startswith("embedded takes 4900/s")
    assert figure.title == "Latency, 99\u00a0% against the planned rate"
    # 2 s is not drawn beside 10 ms.
    assert [part.partition(":")[0] for part in figure.description.split("; ")] == [
        f"embedded at {rate}" for rate in ("2k/s", "4k/s", "4430/s", "4900/s", "5100/s", "5420/s", "6k/s")
    ]
    rows = {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in table.rows}
    assert rows["4900/s"] == ["4,900", "2.17 ms", "6.5 ms", "4", "1", "broker", "latency.p99 was 12 ms"]
    assert rows["8k/s"][2:5] == ["2 s", "0", "1"]
    assert "the producers reached 8,000 messages/s" in table.notes[0]


def test_the_whole_report_and_the_document(found: Searched, write: Write) -> None:
    folder = write(found.made)
    page = write_report(folder).read_text()
    assert "Capacity: load" in page
    (document,) = as_json(folder)["capacities"]
    kept = {key: document[key] for key in ("system", "goal", "peak", "status", "rate", "low", "high")}
    assert kept == {
        "system": "embedded", "goal": "latency.p99 < 10ms", "peak": PEAK, "status": "found", "rate": 4900.0,
        "low": 4430.0, "high": 5100.0,
    }  # fmt: skip


def test_a_goal_that_the_lowest_rate_misses(searched: Searched, write: Write) -> None:
    for rate in (367.0, 367.0, 367.0, 2000.0, 4000.0, 6000.0, 8000.0):
        searched.at(rate, 0.5)
    results = RunResults.of(write(searched.made))
    assert next_runs(results) == []
    assert sentence(only(results)) == (
        "embedded misses latency.p99 < 10ms even at 367/s, the lowest rate that a run can tell: latency.p99 was 500 ms."
    )


def test_a_system_that_is_too_slow_for_the_percentile(searched: Searched, write: Write) -> None:
    searched.made.rows["measures"][0]["value"] = 40.0
    results = RunResults.of(write(searched.made))
    assert next_runs(results) == []
    assert sentence(only(results)) == (
        "The capacity of embedded within latency.p99 < 10ms is not known: latency.p99 needs 1,000 messages: at its "
        "highest rate of 40/s a run must measure 25.0 s or more."
    )


def test_a_system_that_does_not_run(searched: Searched, write: Write) -> None:
    searched.made.rows["measures"].clear()
    searched.made.rows["audits"][0] |= {"status": "incomplete", "reason": "it ended"}
    results = RunResults.of(write(searched.made))
    assert next_runs(results) == []
    assert sentence(only(results)).endswith("is not known: nothing runs: no valid run; incomplete: it ended.")


def ended(folder: RunFolder) -> tuple[int, str, list[str]]:
    """The exit code of `mqlab report`, what it said, and the tags of the tests in JUnit that did not pass."""
    junit = folder.path / "junit.xml"
    result = CliRunner().invoke(app_with(["report"]), ["report", str(folder.path), "--junit", str(junit)])
    cases = ElementTree.parse(junit).getroot().iter("testcase")
    return result.exit_code, result.stderr, [child.tag for case in cases for child in case]


def test_a_limit_that_was_found_ends_with_0(found: Searched, write: Write) -> None:
    """The rates above it miss the goal, and may lose messages: that is what they are for."""
    found.at(9000.0, None, status="failed", reason="2 lost")
    code, _, tags = ended(write(found.made))
    assert (code, tags) == (0, [])


def test_a_search_that_misses_its_goal_at_the_lowest_rate_ends_with_4(searched: Searched, write: Write) -> None:
    while asked := next_runs(RunResults.of(write(searched.made))):
        for request in asked:
            for _ in range(request.runs):
                searched.at(request.point.rate or 0.0, 0.5)
    code, said, tags = ended(write(searched.made))
    assert (code, tags) == (4, ["failure"])
    assert "goal missed: embedded misses latency.p99 < 10ms even at 367/s" in said


def test_a_search_that_is_not_decided_ends_with_6(searched: Searched, write: Write) -> None:
    searched.at(2000.0, 0.002)
    code, said, tags = ended(write(searched.made))
    assert (code, tags) == (6, ["error"])
    assert "inconclusive: The capacity of embedded within latency.p99 < 10ms is not known" in said
