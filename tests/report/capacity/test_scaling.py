"""Searches over a number of clients: the scalability law of their rates."""

from pathlib import Path

import pytest

from mqlab.report.capacity.scaling import scaling_blocks, scaling_table
from mqlab.report.capacity.trials import searches
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.content import Table
from mqlab.report.render.page import build
from mqlab.study import load_study
from mqlab.study.capacity.scalability import ScalabilityFit
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns

STUDY = """
study: scaled
title: How it scales
scenarios:
  load:
    {queues: 1, requesters: COUNTS, responders: 1, pattern: request-reply, message: {size: 1KiB},
     find: "response.p99 < 10ms"}
"""
LAW = ScalabilityFit(1000.0, 0.05, 0.002, 0.0)


@pytest.mark.parametrize("counts", [(1, 2, 4, 8, 16), (1, 2, 4)])
def test_the_law_of_the_closed_loop(tmp_path: Path, write: Write, counts: tuple[int, ...]) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.yaml").write_text(STUDY.replace("COUNTS", str([*counts])))
    made = SyntheticRuns(load_study(tmp_path / "study"))
    made.meta |= {"study": "scaled", "scale": "full"}
    for point in made.study.points("full"):
        made.measure("load", "rate.round_trips", LAW.rate(point.requesters), point=point.name)
        made.run("load", point=point.name)
    blocks = [*scaling_blocks(searches(RunResults.of(write(made))))]
    if len(counts) < 4:
        assert blocks == []
        return
    (table,) = blocks
    assert isinstance(table, Table)
    (row,) = table.rows
    highest = f"{LAW.rate(LAW.best_clients):,.0f}"
    assert [cell.text for cell in row.cells] == [
        "embedded", "requesters", "", "closed loop", "1,000", "0.05", "0.002", highest, "22", "0.0%",
    ]  # fmt: skip


def swept(tmp_path: Path, scenario: str) -> SyntheticRuns:
    """A study without a search, whose closed loops follow a law for each size of message."""
    (tmp_path / "study").mkdir()
    text = f"study: swept\ntitle: Clients\nscenarios:\n  load: {{queues: 1, {scenario}}}\n"
    (tmp_path / "study" / "study.yaml").write_text(text)
    made = SyntheticRuns(load_study(tmp_path / "study"))
    made.meta |= {"study": "swept", "scale": "full"}
    for point in made.study.points("full"):
        rate = LAW.rate(point.producers) / (2 if point.size == 2048 else 1)
        made.measure("load", "rate.work", rate, point=point.name, bound_by="broker")
        made.run("load", point=point.name)
    return made


def test_a_sweep_without_a_search_has_a_law_for_each_other_parameter(tmp_path: Path, write: Write) -> None:
    scenario = "producers: [1, 2, 4, 8], consumers: 1, message: {size: [1KiB, 2KiB]}, rate: [max, 100/s]"
    results = RunResults.of(write(swept(tmp_path, scenario)))
    table = scaling_table(results)
    assert table is not None
    assert [[cell.text for cell in row.cells[:5]] for row in table.rows] == [
        ["embedded", "producers", "load, size=1KiB", "closed loop", "1,000"],
        ["embedded", "producers", "load, size=2KiB", "closed loop", "500"],
    ]
    assert "Scaling with the number of clients" in str(build(results))


def test_clients_that_grow_together_are_one_sweep(tmp_path: Path, write: Write) -> None:
    scenario = (
        "producers: [1, 2, 4, 8], consumers: [1, 3, 5, 9], together: [[producers, consumers]], message: {size: 1KiB}"
    )
    table = scaling_table(RunResults.of(write(swept(tmp_path, scenario))))
    assert table is not None
    assert [[cell.text for cell in row.cells[1:3]] for row in table.rows] == [["producers", "load"]]


def test_what_is_not_the_systems_own_rate_has_no_law(tmp_path: Path, write: Write) -> None:
    made = swept(tmp_path, "producers: [1, 2, 4, 8], consumers: 1, message: {size: 1KiB}")
    made.rows["measures"][0]["bound_by"] = "lab"
    assert scaling_table(RunResults.of(write(made))) is None
