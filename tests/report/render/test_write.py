"""The files of a report."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from mqlab.events.folder import RunFolder
from mqlab.events.sources import EventSources
from mqlab.pipeline.measure_tables import NotMeasuredError, complete_measures
from mqlab.report import write_report
from mqlab.study import load_study
from report.conftest import Write
from report.html_report import ReadPage
from report.synthetic_runs import SyntheticRuns


def test_the_files(whole_run: RunFolder) -> None:
    assert (whole_run.report / "index.html").is_file()
    assert (whole_run.report / "report.md").is_file()
    for picture in whole_run.report.glob("*.svg"):
        assert ET.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_writing_again_gives_the_same_and_leaves_nothing_old(small: SyntheticRuns, write: Write) -> None:
    folder = write(small)
    first = write_report(folder).read_text()
    (folder.report / "old.svg").write_text("<svg/>")
    assert write_report(folder).read_text() == first
    assert not (folder.report / "old.svg").exists()


def test_a_run_that_was_not_measured_has_no_report(made: SyntheticRuns, write: Write) -> None:
    folder = write(made)
    (folder.measures / "measures" / "part.parquet").unlink()
    (folder.measures / "measures").rmdir()
    with pytest.raises(NotMeasuredError):
        write_report(folder)


def test_events_that_changed_since_they_were_measured_have_no_report(small: SyntheticRuns, write: Write) -> None:
    folder = write(small)
    complete_measures(folder, EventSources({}), {})
    write_report(folder)
    (folder.events / "sends").mkdir(parents=True)
    (folder.events / "sends" / "run-00001.parquet").write_bytes(b"")
    with pytest.raises(NotMeasuredError, match=r"run-00001\.parquet was added or removed"):
        write_report(folder)


OWN_STUDY = {
    "study": "own",
    "title": "A study of one's own",
    "defaults": {"queues": 1, "producers": 1, "consumers": 1},
    "scenarios": {
        "sizes": {"message": {"size": ["12B", "1KiB"]}},
        "a b": {"message": {"size": "100B"}, "rate": "5k/s"},
    },
    "exhibits": [{"matrix": "Latency", "rows": "scenario", "columns": "system", "value": "latency.p99"}],
    "claims": [
        {
            "id": "slower",
            "says": "larger is slower",
            "source": "us",
            "check": 'latency.p99[sizes, "size=1KiB"] > latency.p99[sizes, "size=12B"]',
        }
    ],
}


def test_a_study_of_ones_own_with_a_sweep_and_nothing_published(
    made: SyntheticRuns, write: Write, tmp_path: Path
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(OWN_STUDY, sort_keys=False))
    made.study = load_study(file)
    made.rows = {table: [] for table in made.rows}
    for point, value in (("size=12B", 0.001), ("size=1KiB", 0.002)):
        made.measure("sizes", "latency.p99", value, 0.0001, point=point)
        made.run("sizes", point=point)
    page = ReadPage.of(write_report(write(made)))
    table = page.table("Latency")
    assert table.head == ["Scenario", "embedded (measured here)"]
    assert table.rows == [
        ["sizes (size=12B)", "0.001 ± 0.0001"],
        ["sizes (size=1KiB)", "0.002 ± 0.0001"],
        ["a b", "n/a not run"],
    ]
    verdict = page.table("Each claim, on the published figures and on ours").rows[0]
    assert verdict[-1].startswith("holds")
    # One percentile alone is no distribution.
    assert [title for title in page.figures if not title.startswith("Claims")] == ["Latency, 99 % of every scenario"]
    assert "sizes (size=1KiB): latency, measured here: not drawn" in page.text
