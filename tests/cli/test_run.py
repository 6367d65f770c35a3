"""One run from the declaration to the report, as a user makes it, and what can be asked of its folder afterwards."""

import json
import re
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from mqlab.events.folder import RunFolder, run_folders
from mqlab.json_values import JsonObject
from mqlab.pipeline.history.dataset import history_of
from mqlab.pipeline.measure_tables import read_table
from mqlab.pipeline.schema import BOTTLENECKS
from mqlab.study import load_study

from .command import SMALL, document, here, mqlab

CLASSES = ("delivered", "lost", "duplicated", "recovered", "out_of_order", "unexpected")
METRICS_OF_EVERY_RUN = (
    "rate.received", "rate.sent", "bytes.received", "latency.p50", "latency.p90", "latency.p99", "latency.p99.9",
    "latency.max", "cpu.broker", "cpu.agents", "cpu.lab", "rss.broker", "rss.agents",
)  # fmt: skip
ESCAPE = "\x1b"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def ended(runs: Path) -> subprocess.CompletedProcess[str]:
    command = ("run", "jms-four-brokers", "--only", "A", "--only", "G", "--minutes", "0.1", "--json", "--runs", runs)
    return mqlab(*command, MQLAB_IGNORE_NOISE="0")


@pytest.fixture(scope="module")
def found(ended: subprocess.CompletedProcess[str]) -> JsonObject:
    return document(ended.stdout)


@pytest.fixture(scope="module")
def folder(found: JsonObject) -> RunFolder:
    return RunFolder.open(Path(found["run"]))


class TestTheDocument:
    def test_the_command_ends_well(self, ended: subprocess.CompletedProcess[str]) -> None:
        assert ended.returncode == 0, ended.stderr

    def test_the_words_are_on_stderr_and_plain(self, ended: subprocess.CompletedProcess[str]) -> None:
        # A busy machine is told first.
        lines = [line for line in ended.stderr.splitlines() if not line.startswith("This machine: ")]
        assert re.fullmatch(r"run 1 of 2: A; [\d.]+ s left", lines[0])
        told = [line.partition(": ")[2][:1] for line in lines if line.startswith("run ")]
        assert told[:2] == ["A", "G"], "one line a point"
        assert set(told) == {"A", "G"}, "and one more each time that more of its runs are needed"
        assert lines[-2].startswith("report: ")
        assert re.fullmatch(r"the pipeline took \d+ of \d+ s \(\d+ %\)", lines[-1])
        assert ESCAPE not in ended.stderr + ended.stdout
        assert "Traceback" not in ended.stderr

    def test_it_says_where_the_run_is(self, found: JsonObject, runs: Path) -> None:
        (only,) = run_folders(runs)
        assert Path(found["run"]) == only
        assert (found["study"], found["scale"], found["status"]) == ("jms-four-brokers", "quick", "complete")

    def test_every_measure_says_what_it_is(self, found: JsonObject) -> None:
        assert found["measures"]
        for measure in found["measures"]:
            assert {
                "study", "scenario", "point", "system", "metric", "value", "unit", "ci95", "runs", "bound_by"
            } <= measure.keys()  # fmt: skip
            assert (measure["study"], measure["system"]) == ("jms-four-brokers", "embedded")
            # A percentile with too few observations is not told.
            is_thin = measure["value"] is None and ".p" in measure["metric"]
            assert is_thin or isinstance(measure["value"], int | float)
            assert measure["unit"]
            assert measure["runs"] >= 1
            assert measure["bound_by"] in (None, *BOTTLENECKS)
            assert measure["ci95"] is None or measure["ci95"] >= 0

    def test_the_measures_are_those_of_the_scenarios_that_were_asked_for(self, found: JsonObject) -> None:
        by_place = {(one["scenario"], one["metric"]): one["value"] for one in found["measures"]}
        assert {scenario for scenario, _ in by_place} == {"A", "G"}
        for scenario in "AG":
            for metric in METRICS_OF_EVERY_RUN:
                assert by_place[scenario, metric] is None or by_place[scenario, metric] > 0
            assert (by_place[scenario, "latency.p50"] or 0) <= by_place[scenario, "latency.max"]
        assert by_place["A", "bytes.received"] == pytest.approx(12 * by_place["A", "rate.received"])
        assert by_place["G", "bytes.received"] == pytest.approx(1024 * by_place["G", "rate.received"])
        assert ("G", "confirm.p50") in by_place
        assert by_place["G", "syncs"] > 0
        assert ("A", "confirm.p50") not in by_place, "nobody waited for a confirmation"

    def test_every_run_has_a_clean_audit(self, found: JsonObject) -> None:
        audits = found["audits"]
        assert [audit["run"] for audit in audits] == list(range(1, len(audits) + 1))
        for point in load_study("jms-four-brokers").points("quick", ["A", "G"]):
            # A disturbed run is repeated under the same number.
            repetitions = {audit["repetition"] for audit in audits if audit["scenario"] == point.scenario}
            assert 1 <= len(repetitions) <= 48
        for audit in audits:
            assert audit["status"] == "clean", audit
            counts = {name: audit[name] for name in CLASSES}
            assert counts.pop("delivered") == audit["expected"] > 0
            assert set(counts.values()) == {0}

    def test_the_noise_of_every_run_is_told(self, found: JsonObject) -> None:
        assert [run["run"] for run in found["noise"]] == [audit["run"] for audit in found["audits"]]
        for run in found["noise"]:
            assert 0 <= run["steal"] <= 1
            assert run["foreign"] >= 0
            assert run["used"] or run["disturbed"] or run["unsteady"]

    def test_the_conclusions_are_judged(self, found: JsonObject) -> None:
        words = {"holds", "refuted", "inconclusive", "not testable here"}
        assert {verdict["verdict"] for verdict in found["verdicts"]} <= words
        assert {"published", "measured"} <= {verdict["basis"] for verdict in found["verdicts"]}


class TestTheFolder:
    def test_the_report_is_there(self, folder: RunFolder) -> None:
        page = (folder.report / "index.html").read_text()
        assert page.lstrip().lower().startswith("<!doctype html>")
        assert "quick" in page
        assert (folder.report / "report.md").read_text().startswith("# ")
        assert [*folder.report.glob("*.svg")]

    def test_meta_says_how_it_was_made(self, folder: RunFolder) -> None:
        meta = folder.meta()
        assert meta["status"] == "complete"
        assert meta["command"].startswith("mqlab run jms-four-brokers --only A --only G --minutes 0.1 --json")
        assert meta["machine"]["java"]
        assert meta["packages"]["pyspark"]

    def test_nothing_is_left_of_the_systems(self, folder: RunFolder) -> None:
        assert sorted(part.name for part in folder.path.iterdir()) == [
            "events", "live.jsonl", "measures", "meta.json", "report", "study",
        ]  # fmt: skip

    def test_reporting_again_gives_the_same_document(self, folder: RunFolder, found: JsonObject) -> None:
        result = here("report", folder.path, "--json")
        assert result.exit_code == 0
        assert document(result.stdout) == found

    def test_latencies_and_results_are_written_for_other_programs(
        self, folder: RunFolder, found: JsonObject, tmp_path: Path
    ) -> None:
        log, results = tmp_path / "latencies.hlog", tmp_path / "results"
        assert here("report", folder.path, "--hdr-log", log, "--openmessaging", results).exit_code == 0
        clean = {(row["scenario"], row["point"]) for row in found["measures"] if row["metric"] == "rate.received"}
        assert len([line for line in log.read_text().splitlines() if line.startswith("Tag=")]) == len(clean)
        files = [json.loads(file.read_text()) for file in results.iterdir()]
        assert {file["workload"].partition(" ")[2][:1] for file in files} == {"A", "G"}
        assert all(rate > 0 for file in files for rate in file["consumeRate"])

    def test_the_summary_for_people_is_data_and_plain(self, folder: RunFolder) -> None:
        result = here("report", folder.path)
        assert result.exit_code == 0
        assert "scale quick" in result.stdout
        assert "embedded" in result.stdout
        assert "HornetQ" in result.stdout
        assert ESCAPE not in result.stdout + result.stderr
        assert result.stderr.replace("\n", "") == f"report: {folder.report / 'index.html'}"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Where the file lies, and what the command gave; run folders go where the environment says."""
    parent = tmp_path_factory.mktemp("own")
    (parent / "my study.yaml").write_text(SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQLAB_RUNS", str(parent / "by environment"))
        patch.chdir(parent)
        return parent, here("run", "my study.yaml", "--agents", "3", "--fail-if", "rate.received < 1/s")


class TestAStudyOfOnesOwn:
    def test_it_ends_with_a_summary_and_the_path_of_the_report(self, own: tuple[Path, Result]) -> None:
        parent, result = own
        assert result.exit_code == 6, result.stderr
        assert "My own, scale quick" in result.stdout
        (path,) = run_folders(parent / "by environment")
        assert f"report: {path / 'report' / 'index.html'}the pipeline took " in result.stderr.replace("\n", "")
        assert sorted(part.name for part in parent.iterdir()) == ["by environment", "my study.yaml"]

    def test_a_gate_never_passes_for_lack_of_evidence(self, own: tuple[Path, Result]) -> None:
        """Every point has a single run, and so no interval."""
        assert "fails if rate.received < 1/s, embedded: not known" in own[1].stdout
        assert "inconclusive: fails if rate.received < 1/s; embedded: " in own[1].stderr.replace("\n", "")

    def test_its_measures_are_in_the_history(self, own: tuple[Path, Result]) -> None:
        (path,) = run_folders(own[0] / "by environment")
        recorded = pq.read_table(history_of(path.parent)).to_pylist()
        measured = read_table(RunFolder(path), "measures")
        assert [(row["run_folder"], row["metric"], row["value"], row["values"]) for row in recorded] == [
            (path.name, row["metric"], row["value"], [row["value"]]) for row in measured
        ]
        assert {row["machine"] for row in recorded} == {RunFolder(path).meta()["machine"]["id"]}

    def test_its_declaration_is_kept(self, own: tuple[Path, Result]) -> None:
        (path,) = run_folders(own[0] / "by environment")
        assert (path / "study" / "study.yaml").read_text() == SMALL
        assert path.name.endswith("-mine-quick")

    def test_its_event_files_are_compacted(self, own: tuple[Path, Result]) -> None:
        (path,) = run_folders(own[0] / "by environment")
        for table in ("runs", "sends", "receipts"):
            (file,) = RunFolder(path).event_files(table)
            assert file.name.startswith("runs-00001-00002.")

    def test_the_rate_that_was_asked_for_is_the_rate_that_is_found(self, own: tuple[Path, Result]) -> None:
        (path,) = run_folders(own[0] / "by environment")
        found = {(m["scenario"], m["metric"]): m for m in read_table(RunFolder(path), "measures")}
        planned = found["B", "rate.sent"]["value"]
        # Messages that leave late, on a busy machine, may leave the measure phase: never are there more than planned.
        assert 0 < planned <= 400 * 1.25
        assert found["B", "rate.sent"]["runs"] == 1
        assert found["B", "rate.sent"]["ci95"] is None, "one run has no interval"
        assert {a["status"] for a in read_table(RunFolder(path), "audits")} == {"clean"}


def test_without_java_no_run_begins(tmp_path: Path) -> None:
    """The load may take hours, and could not be measured."""
    study = tmp_path / "study.yaml"
    study.write_text(SMALL)
    result = mqlab("run", study, "--runs", tmp_path / "runs", JAVA_HOME=str(tmp_path))
    assert result.returncode == 7, result.stderr
    (path,) = run_folders(tmp_path / "runs")
    assert " ".join(result.stderr.split()).endswith(
        f"needs a Java runtime, version 17 or later: none was found in JAVA_HOME ({tmp_path}); "
        f"the incomplete run folder is {path}"
    )
    assert not RunFolder(path).event_files("runs")
