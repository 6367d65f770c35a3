"""Systems in the report: the durability of their confirmations, and unsupported features."""

from dataclasses import asdict
from pathlib import Path

import pytest

from mqlab.broker.server.broker import _LAZY_FLUSH_SECONDS
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.exhibits import bar_note
from mqlab.report.exhibits.headline import rate_tiles
from mqlab.report.exhibits.lab_tables import calibration_table, durability_table, points_table, systems_table
from mqlab.report.render.page import build
from mqlab.systems import system

from .conftest import Write
from .synthetic_runs import SyntheticRuns

DOCS = Path(__file__).parents[2] / "docs"

WORDS = {
    "syncs": "never", "persistent": "when it is in memory", "confirmed": "never", "acknowledged": "on delivery",
    "replies": "by an inbox of its own",
}  # fmt: skip


def test_the_ledger_has_every_system_with_what_was_seen(made: SyntheticRuns, write: Write) -> None:
    made.meta["systems"][0] |= {"durability": WORDS, "witnessed": "confirms before it syncs: 0 of 40"}
    made.meta["systems"].append({"name": "other", "version": "1", "settings": {}, "stamps": ["never syncs"]})
    first, second = durability_table(RunResults.of(write(made))).rows
    assert [cell.text for cell in first.cells] == ["embedded", *WORDS.values(), "confirms before it syncs: 0 of 40"]
    assert second.cells[0].stamps == ("never syncs",)
    assert (second.cells[-1].text, second.cells[-1].note) == ("n/a", "not observed")


def test_how_far_ahead_free_producers_were_stands_beside_the_rate(made: SyntheticRuns, write: Write) -> None:
    made.meta["systems"][0] |= {"ahead_seconds": 0.1}
    made.meta["systems"].append({"name": "other", "version": "1", "settings": {}, "stamps": []})
    results = RunResults.of(write(made))
    table = points_table(results)
    free = {point.label for point in results.points if point.is_unthrottled}
    confirmed = {point.label for point in results.points if point.send == "confirmed"}
    assert free
    assert confirmed
    at = table.head.index("Send")
    said = {(one.cells[0].text, one.cells[1].text): one.cells[at].text for one in table.rows}
    assert {said[label, "embedded"] for label in free} == {"free, 100 ms ahead"}
    assert {said[label, "other"] for label in free} == {"free"}
    assert {said[label, "embedded"] for label in confirmed} == {"confirmed"}


def test_warm_up_runs_are_noted(made: SyntheticRuns, write: Write) -> None:
    assert len(systems_table(RunResults.of(write(made))).notes) == 1
    made.meta["systems"][0] |= {"rehearsals": 7}
    assert systems_table(RunResults.of(write(made))).notes[1].endswith("no figure counts them: embedded 7.")


def test_the_ledger_is_in_the_report(made: SyntheticRuns, write: Write) -> None:
    page = build(RunResults.of(write(made)))
    section = next(section for section in page.sections if section.id == "durability")
    assert [getattr(block, "title", "") for block in section.blocks] == ["Durability of confirmations"]
    assert page.lights[-1].section == section.id, "the light of like for like leads to it"


def test_what_a_system_lacks_stands_in_place_of_a_figure(made: SyntheticRuns, write: Write) -> None:
    made.meta["systems"].append({"name": "other", "version": "1", "settings": {}, "stamps": []})
    reason = "transactions: MQTT has none"
    made.meta["absences"] = [{"system": "other", "scenario": "F", "point": "", "reason": reason}]
    results = RunResults.of(write(made))
    point = next(point for point in results.points if point.scenario == "F")
    assert results.absence("other", point) == reason
    row = next(
        row.cells for row in points_table(results).rows
        if row.cells[0].text == point.label and row.cells[1].text == "other"
    )  # fmt: skip
    assert (row[2].text, row[2].note) == ("n/a", reason)


def test_the_labs_own_work_is_shown(made: SyntheticRuns, write: Write) -> None:
    assert calibration_table(RunResults.of(write(made))) is None
    costs = {"sent_call": 2e-6, "sent_message": 3e-9, "received_call": 1.5e-6, "received_message": 0.0}
    kinds = [("one-way", "free", False), ("one-way", "free", True), ("request-reply", "free", False)]
    made.meta["calibrations"] = [
        {"pattern": pattern, "send": send, "transacted": transacted, "size": 12, **costs}
        for pattern, send, transacted in kinds
    ]
    table = calibration_table(RunResults.of(write(made)))
    assert table is not None
    assert [row.cells[0].text for row in table.rows] == ["free", "transacted", "request/reply"]
    assert [cell.text for cell in table.rows[0].cells[1:]] == ["12 B", "2 µs", "3 ns", "1.5 µs", "0 ns"]


def test_a_run_with_the_calibrations_of_former_versions_has_no_such_table(made: SyntheticRuns, write: Write) -> None:
    made.meta["calibrations"] = [{"driver": "native", "size": 12, "batch": 32768, "sent": 31e6, "received": None}]
    assert calibration_table(RunResults.of(write(made))) is None


def test_a_full_machine_stands_in_place_of_a_claim_about_the_system(made: SyntheticRuns, write: Write) -> None:
    for measure in made.rows["measures"]:
        measure["bound_by"] = "machine full"
    results = RunResults.of(write(made))
    point = next(point for point in results.points if point.scenario == "A")
    assert "machine full" in {cell.text for cell in points_table(results).rows[0].cells}
    assert ", machine full" in bar_note(results, point, "rate.received")
    assert "lower bound" not in bar_note(results, point, "rate.received")


def test_of_many_systems_the_two_highest_come_first(made: SyntheticRuns, write: Write) -> None:
    rates = [row for row in made.rows["measures"] if row["metric"] == "rate.received"]
    for name, factor in (("slow", 0.1), ("best", 3.0), ("slower", 0.01)):
        made.meta["systems"].append({"name": name, "version": "1", "settings": {}, "stamps": []})
        made.rows["measures"] += [row | {"system": name, "value": row["value"] * factor} for row in rates]
    tiles = [tile.note.split(",")[0] for tile in rate_tiles(RunResults.of(write(made)))]
    assert tiles == ["best", "embedded"]


@pytest.mark.parametrize("sync", ["on", "off"])
def test_report_and_manual_say_the_same_of_the_embedded_brokers_durability(
    sync: str, made: SyntheticRuns, write: Write
) -> None:
    durability = system(f"embedded:sync={sync}").durability()
    made.meta["systems"][0] |= {"durability": asdict(durability)}
    reported = [cell.text for cell in durability_table(RunResults.of(write(made))).rows[0].cells]
    manual, systems = ((DOCS / name).read_text(encoding="utf-8") for name in ("broker.md", "systems.md"))
    for text in (durability.persistent, durability.confirmed, durability.acknowledged):
        assert text in reported
        assert f"| {text} |" in manual, "run .venv/bin/python scripts/tables.py"
    assert sync == "off" or f"| {durability.acknowledged} |" in systems
    assert f"within about {_LAZY_FLUSH_SECONDS * 1000:g} ms" in durability.acknowledged
