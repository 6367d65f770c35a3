"""A figure that says nothing is not shown as if it said something."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mqlab.events.folder import RunFolder
from mqlab.report import write_index, write_report
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.cells import ONE_RUN, SAME, half_width, why_unknown
from mqlab.report.exhibits.headline import headline, rate_tiles
from mqlab.study import load_study

from .fabricated import fabricated
from .html_report import ReadPage
from .synthetic_runs import SyntheticRuns

Write = Callable[[SyntheticRuns], RunFolder]


@pytest.mark.parametrize(
    ("metric", "value", "ci95", "known"),
    [
        ("rate.received", 100.0, 10.0, True),
        ("rate.received", 100.0, None, True),
        ("rate.received", 0.0, 0.0, False),
        ("bytes.received", 0.0, None, False),
        ("rate.received", 100.0, 100.0, False),
        ("latency.p99", 0.001, 0.5, False),
        ("holds", 0.0, 0.0, True),
        ("cpu.broker", 0.0, 0.0, True),
        ("impact", -15.8, 632.0, False),
        ("impact", 0.3, 1.2, True),
        ("impact", 0.0, None, True),
        ("ratio", 2.0, 3.0, False),
    ],
)
def test_what_is_known(metric: str, value: float, ci95: float | None, known: bool) -> None:
    assert (why_unknown(metric, value, ci95) == "") == known


def test_an_interval_of_nothing_is_said_in_words() -> None:
    assert half_width(6_179_109.0, "", 0.0) == SAME
    assert half_width(6_179_109.0, "", 1e-14) == SAME
    assert half_width(5.0, "", None) == ONE_RUN
    assert half_width(5.0, "", 0.5) == "± 0.5"


def test_a_rate_of_nothing_is_not_known_anywhere(small: SyntheticRuns, write: Write) -> None:
    for row in small.rows["measures"]:
        if row["metric"].startswith("rate."):
            row.update(value=0.0, ci95=0.0, bound_by="lab")
    folder = write(small)
    page = ReadPage.of(write_report(folder))
    assert "\u2265 0" not in page.text
    assert "not known" in page.text
    assert [*rate_tiles(RunResults.of(folder))] == []


def mixed(folder: Path) -> SyntheticRuns:
    """One-way traffic beside requests and replies, as in the example of `mqlab init`."""
    declared = {
        "study": "mixed",
        "title": "Mixed",
        "defaults": {"message": {"size": "1KiB"}, "queues": 1},
        "scenarios": {
            "one-way": {"producers": 1, "consumers": 1},
            "calls": {"pattern": "request-reply", "requesters": 4, "responders": 1},
        },
        "exhibits": [
            {"table": "One-way", "of": ["one-way"], "by": ["scenario"], "columns": [{"value": "rate.received"}]}
        ],
    }
    folder.mkdir()
    (folder / "study.yaml").write_text(yaml.safe_dump(declared))
    return fabricated(load_study(folder))


def test_a_headline_counts_a_request_and_its_reply_once(tmp_path: Path) -> None:
    made = mixed(tmp_path / "declared")
    made.rows["measures"] = []
    for scenario, metrics in {
        "one-way": {"rate.received": 1000.0, "rate.work": 1000.0},
        "calls": {"rate.received": 3000.0, "rate.round_trips": 1500.0, "rate.work": 1500.0},
    }.items():
        for metric, value in metrics.items():
            made.measure(scenario, metric, value, value * 0.01)
    results = RunResults.of(made.write(tmp_path / "run"))
    assert headline(results) == "rate.work"
    (tile,) = rate_tiles(results)
    assert tile.figure == "1.5 k messages/s"


def test_names_of_systems_may_break_in_the_table_of_studies(small: SyntheticRuns, write: Write) -> None:
    """Long ones drove the columns with the audits and the claims off the page."""
    index = write_index([write(small), write(small)]).read_text()
    assert "#studies td { overflow-wrap: anywhere;" in index
    assert '<section id="studies"' in index
