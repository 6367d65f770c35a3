"""The JSON document."""

import json
from pathlib import Path

from mqlab.events.folder import RunFolder
from mqlab.report import as_json
from report.conftest import Write
from report.sweep_study import OURS, SCAN, sweeps
from report.synthetic_runs import CLASSES, SyntheticRuns


def test_keys(whole_run: RunFolder) -> None:
    document = as_json(whole_run)
    assert {"run", "study", "scale", "status", "measures", "audits", "verdicts"} <= document.keys()
    assert document["run"] == str(whole_run.path)
    assert (document["study"], document["scale"], document["status"]) == ("jms-four-brokers", "quick", "complete")


def test_measures(whole_run: RunFolder) -> None:
    measures = as_json(whole_run)["measures"]
    assert {measure["scenario"] for measure in measures} == set("ABCDEFGH")
    found = next(m for m in measures if m["scenario"] == "A" and m["metric"] == "rate.received")
    assert found == {
        "study": "jms-four-brokers",
        "scenario": "A",
        "point": "",
        "system": "embedded",
        "metric": "rate.received",
        "value": 21_345_678.0,
        "unit": "messages/s",
        "ci95": 213_456.78,
        "runs": 3,
        "bound_by": "lab",
        "travel": None,
        "quiet": True,
        "observations": None,
        "loop": None,
    }


def test_audits_count_every_class_of_every_run(whole_run: RunFolder) -> None:
    audits = as_json(whole_run)["audits"]
    assert len(audits) == 24
    for audit in audits:
        assert set(CLASSES) <= audit.keys()
        assert (audit["status"], audit["lost"], audit["delivered"]) == ("clean", 0, 1000)


def test_verdicts(whole_run: RunFolder) -> None:
    verdicts = as_json(whole_run)["verdicts"]
    assert {frozenset(verdict) for verdict in verdicts} == {
        frozenset((
            "claim", "says", "source", "subject", "basis", "verdict", "figures", "reason", "words", "class", "needed",
            "limits", "measured", "interval", "missing_minutes", "missing", "stands_for",
        ))
    }  # fmt: skip
    (found,) = [one for one in verdicts if (one["claim"], one["basis"]) == ("transactions-raise", "measured")]
    assert (found["class"], found["needed"], found["missing_minutes"]) == ("testable", "more than 1", None)
    low, high = found["interval"]
    assert 1 < low < found["measured"] < high
    classes = {one["verdict"]: one["class"] for one in verdicts}
    assert classes == {
        "holds": "testable", "refuted": "testable", "inconclusive": "testable",
        "not testable here": "not testable here",
    }  # fmt: skip
    assert {verdict["basis"] for verdict in verdicts} == {"measured", "published"}


def test_it_is_json_and_an_unknown_interval_is_null(made: SyntheticRuns, write: Write) -> None:
    made.rows["measures"] = []
    made.measure("A", "rate.received", 5.0, None, runs=1)
    document = json.loads(json.dumps(as_json(write(made)), allow_nan=False))
    assert document["measures"][0]["ci95"] is None


def test_stamps_go_with_the_systems(made: SyntheticRuns, write: Write) -> None:
    made.meta["systems"][0]["stamps"] = ["sync: off"]
    assert as_json(write(made))["systems"][0]["stamps"] == ["sync: off"]


def test_impacts_comparisons_and_peaks_are_there(tmp_path: Path, write: Write) -> None:
    document = as_json(write(sweeps(tmp_path / "study")))
    impact = next(one for one in document["impacts"] if one["system"] == SCAN and one["metric"] == "rate.round_trips")
    assert (impact["point"], impact["base"], impact["value"]) == ("preload=50", "preload=0", -60.0)
    assert {one["over"] for one in document["peaks"]} == {"threads"}
    assert {one["first"] for one in document["comparisons"]} == {OURS, SCAN}
