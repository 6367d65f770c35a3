"""Loss, duplication and reordering are found, counted and never shown as a rate."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import Result

from mqlab.cli.terminal.exit_status import exit_with_worst
from mqlab.drivers import DRIVERS
from mqlab.events.folder import RunFolder, run_name
from mqlab.events.schema import TABLES
from mqlab.json_values import JsonObject
from mqlab.pipeline.measure_tables import read_table
from mqlab.systems import SYSTEMS

from . import faults
from .command import document, here

STUDY = """
study: faults
title: What must not happen
scenarios:
  A: {queues: 1, producers: 1, consumers: 1, message: {size: 100B}, rate: 50k/s}
scales:
  quick: {phases: {warmup: 200ms, measure: 400ms, drain: 500ms}, repeat: {until: none, least: 1, most: 1}}
"""
CLASSES = ("lost", "duplicated", "duplicated_marked", "recovered", "out_of_order", "unexpected")
N = faults.NUMBER


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "faults.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def result(study: Path) -> Result:
    """A sound system and four that are not, in one run."""
    beside = study.parent / "site"
    beside.mkdir()
    shutil.copy(faults.__file__, beside / "mqlab_test_faults.py")
    (beside / "sitecustomize.py").write_text("import mqlab_test_faults\nmqlab_test_faults.install()\n")
    options = [part for name in ("embedded", *faults.FAULTS) for part in ("--system", name)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(beside), prepend=":")
        for known in (DRIVERS, SYSTEMS):
            for name in faults.FAULTS:
                patch.setitem(known, name, None)  # taken out again afterwards
        faults.install()
        return here("run", study, "--json", "--runs", study.parent / "runs", *options)


@pytest.fixture(scope="module")
def found(result: Result) -> JsonObject:
    return document(result.stdout)


class TestAFaultySystem:
    def test_the_command_says_so(self, result: Result) -> None:
        assert result.exit_code == 3
        assert "audit failed" in result.stderr

    @pytest.mark.parametrize(
        ("system", "expected"),
        [
            ("embedded", {}),
            ("drops", {"lost": N}),
            ("doubles", {"duplicated": N}),
            ("reorders", {"out_of_order": N}),
        ],
    )
    def test_exactly_the_messages_with_the_fault_are_found(
        self, found: JsonObject, system: str, expected: dict[str, int]
    ) -> None:
        (audit,) = [audit for audit in found["audits"] if audit["system"] == system]
        assert {name: audit[name] for name in CLASSES} == {**dict.fromkeys(CLASSES, 0), **expected}
        assert audit["status"] == ("failed" if expected else "clean")
        assert bool(audit["reason"]) == bool(expected)
        assert audit["expected"] == audit["sent"] > 0
        assert audit["delivered"] == audit["sent"] - expected.get("lost", 0)

    def test_damaged_bodies_void_their_run_alone(self, found: JsonObject) -> None:
        (audit,) = [audit for audit in found["audits"] if audit["system"] == "damages"]
        assert (audit["status"], audit["reason"]) == ("void", f"{N} messages arrived with another body than was sent")

    def test_only_the_sound_system_has_figures(self, found: JsonObject) -> None:
        assert {measure["system"] for measure in found["measures"]} == {"embedded"}

    def test_the_report_shows_why_and_no_number(self, found: JsonObject) -> None:
        shown = here("report", found["run"])
        lines = [line for line in shown.stdout.splitlines() if "drops" in line and "lost" in line]
        assert len(lines) == 1
        assert f"{N} lost" in lines[0]
        page = (Path(found["run"]) / "report" / "index.html").read_text()
        assert f"{N} lost" in page


@pytest.fixture(scope="module")
def tampered(found: JsonObject, study: Path) -> tuple[RunFolder, Result]:
    """The same events, with a record missing in the first run and one too many in the last; measured again."""
    copy = RunFolder(shutil.copytree(found["run"], study.parent / "copy"))
    _change(copy, 1, without_one_of_the_middle)
    _change(copy, 4, with_two_of_a_stranger)
    return copy, here("measure", copy.path)


def _change(folder: RunFolder, run: int, change: Callable[[pa.Table], pa.Table]) -> None:
    """The files of the receipts, which were compacted, become one for each run."""
    receipts = pq.read_table(folder.events / "receipts", schema=TABLES["receipts"])
    for file in folder.event_files("receipts"):
        file.unlink()
    for each in receipts["run"].unique().to_pylist():
        rows = receipts.filter(pc.equal(receipts["run"], each))
        folder.write_events("receipts", run_name(each), change(rows) if each == run else rows)


def without_one_of_the_middle(receipts: pa.Table) -> pa.Table:
    middle = receipts["ordinal"].to_pylist()[len(receipts) * 7 // 10]
    return receipts.filter(pc.not_equal(receipts["ordinal"], middle))


def with_two_of_a_stranger(receipts: pa.Table) -> pa.Table:
    first = receipts.slice(0, 1).to_pylist()[0]
    stranger = {**first, "producer": 77, "first_seq": 5, "count": 2, "ordinal": 10**9}
    return pa.concat_tables([receipts, pa.Table.from_pylist([stranger], schema=TABLES["receipts"])])


class TestTamperedEvents:
    def test_a_record_that_is_missing_makes_a_void_run(self, tampered: tuple[RunFolder, Result]) -> None:
        """Not a failed one: that would accuse the system of what the lab lost."""
        audit = read_table(tampered[0], "audits")[0]
        assert audit["status"] == "void"
        assert "the agents counted" in audit["reason"]

    def test_a_message_nobody_sent_is_unexpected(self, tampered: tuple[RunFolder, Result]) -> None:
        audit = read_table(tampered[0], "audits")[3]
        assert (audit["unexpected"], audit["status"] in ("failed", "void")) == (2, True)

    def test_when_no_run_is_valid_there_is_no_figure(self, tampered: tuple[RunFolder, Result]) -> None:
        folder, _ = tampered
        assert document(here("report", folder.path, "--json").stdout)["measures"] == []
        shown = here("report", folder.path).stdout
        (row,) = [line for line in shown.splitlines() if line.split()[:1] == ["A"]]
        assert row.count("no valid run") == 5
        assert not re.search(r"\d", row), "not one figure"

    def test_measuring_and_reporting_say_so(self, tampered: tuple[RunFolder, Result]) -> None:
        folder, measured = tampered
        assert (measured.exit_code, measured.stdout) == (3, "")
        words = measured.stderr.replace("\n", "")
        assert f"measures in {folder.measures}" in words
        assert words.endswith(f"mqlab: an audit failed (run 2: {N} lost); see the report")
        assert here("report", folder.path, "--json").exit_code == 3

    def test_what_was_not_touched_is_measured_as_before(
        self, tampered: tuple[RunFolder, Result], found: JsonObject
    ) -> None:
        before = [audit for audit in found["audits"] if audit["run"] in (2, 3)]
        assert [audit for audit in read_table(tampered[0], "audits") if audit["run"] in (2, 3)] == before


def test_that_nothing_could_be_measured_is_not_the_news_when_the_audits_failed() -> None:
    with pytest.raises(typer.Exit) as caught:
        exit_with_worst(
            [{"run": run, "status": status, "reason": "why"} for run, status in enumerate(("failed", "void"))],
            measured=False, complete=True,
        )  # fmt: skip
    assert caught.value.exit_code == 3
