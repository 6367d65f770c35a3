"""One page for several runs, and what becomes of a study with very many points."""

import io
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from mqlab.report import print_summary, write_index, write_report
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.page import DRAWN, drawn_points
from mqlab.study import load_study
from report.fabricated import fabricated
from report.html_report import ReadPage
from report.sweep_study import one_scenario
from report.synthetic_runs import SyntheticRuns


def many(folder: Path, clients: int = 10) -> SyntheticRuns:
    """A grid of `clients` x 10 points, with no exhibit of its own for each."""
    declared = {
        "study": "many",
        "title": "Very many",
        "scenarios": {
            "grid": {
                "pattern": "request-reply",
                "queues": 1,
                "clients": list(range(1, clients + 1)),
                "threads": list(range(1, 11)),
                "responders": 1,
                "message": {"size": "1KiB"},
            }
        },
        "exhibits": [{"lines": "Grid", "x": "threads", "by": ["clients"], "values": ["rate.round_trips"]}],
    }
    folder.mkdir()
    (folder / "study.yaml").write_text(yaml.safe_dump(declared))
    return fabricated(load_study(folder))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> RunResults:
    made = many(tmp_path_factory.mktemp("declared") / "many")
    return RunResults.of(made.write(tmp_path_factory.mktemp("runs") / "many"))


class TestManyPoints:
    def test_only_some_points_are_drawn_those_with_the_highest_rates(self, results: RunResults) -> None:
        drawn = drawn_points(results)
        assert len(drawn) == DRAWN < len(results.points) == 100
        measures = {point.name: results.measure("embedded", point, "rate.round_trips") for point in results.points}
        rates = {name: measure.value for name, measure in measures.items() if measure}
        assert (
            sorted((rates[point.name] for point in drawn), reverse=True) == sorted(rates.values(), reverse=True)[:DRAWN]
        )

    def test_the_page_folds_what_is_long_and_says_what_is_left_out(self, results: RunResults) -> None:
        page = ReadPage.of(write_report(results.folder))
        assert f"Drawn for {DRAWN} of 100 points" in page.text
        assert "Highest rate of round trips of every scenario" in page.figures
        assert len(page.figures) < 30
        assert len(page.table("Every point, measured here, with the conditions of its rate").rows) == 100
        assert page.source.count("<details") >= 3

    def test_the_summary_stays_short(self, results: RunResults) -> None:
        out = io.StringIO()
        print_summary(results.folder, Console(file=out))
        lines = out.getvalue().splitlines()
        assert sum(line.strip().startswith("grid (clients=") for line in lines) == 40
        assert "and 60 more points: see the report" in lines
        assert len(lines) < 60


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    declared, runs = tmp_path_factory.mktemp("declared"), tmp_path_factory.mktemp("runs")
    first = one_scenario(declared / "sweeps").write(runs / "first run")
    second = many(declared / "many", clients=1)
    second.rows["audits"][0].update(status="failed", reason="3 lost", lost=3)
    return write_index([first, second.write(runs / "second")])


class TestIndex:
    def test_every_study_is_there_with_its_headline_and_audit(self, index: Path) -> None:
        page = ReadPage.of(index)
        found = page.table("Every study with its results")
        assert [row[0] for row in found.rows] == ["Sweeps sweeps", "Very many many"]
        assert "embedded" in found.rows[0][1]
        assert "embedded:retrieval=scan" in found.rows[0][1]
        assert found.rows[0][3].startswith("8 of 8 runs clean")
        assert found.rows[1][3].startswith("19 of 20 runs clean 3 lost")
        assert "27 of 28 runs clean" in page.text
        assert "1 run of 20 did not pass the audit" in page.text

    def test_it_leads_to_each_report(self, index: Path) -> None:
        links = {dict(attributes).get("href") for tag, attributes in ReadPage.of(index).tags if tag == "a"}
        assert {"first%20run/report/index.html", "second/report/index.html"} <= links

    def test_so_does_the_markdown(self, index: Path) -> None:
        text = (index.parent / "index.md").read_text()
        assert "](first%20run/report/report.md)" in text
        assert "](second/report/report.md)" in text

    def test_it_stands_beside_the_run_folders(self, index: Path) -> None:
        assert sorted(path.name for path in index.parent.iterdir()) == ["first run", "index.html", "index.md", "second"]


def test_traced_operations_have_a_table(tmp_path: Path) -> None:
    made = one_scenario(tmp_path / "study")
    place = {"scenario": "preload", "point": "preload=0", "system": "embedded", "application": "Requester"}
    times = {"mean": 0.00002, "p50": 0.00001, "p90": None, "p99": 0.0003, "max": 0.01}
    counts = {"count": 12345, "rate": 617.25, "messages": 12345, "bytes": None, "failed": 0}
    made.rows["operations"].append({**place, "operation": "put", **times, **counts})
    page = ReadPage.of(write_report(made.write(tmp_path / "run")))
    found = page.table("Operations of the traced applications, measured here")
    row = ["preload (preload=0)", "embedded", "Requester", "put", "12,345", "617", "20 µs", "10 µs", "300 µs", "10 ms"]
    assert found.rows == [[*row, "12,345", "n/a not recorded", "0"]]


def test_without_traces_there_is_no_such_table(tmp_path: Path) -> None:
    made = one_scenario(tmp_path / "study")
    assert "Traced operations" not in ReadPage.of(write_report(made.write(tmp_path / "run"))).titles
