"""Searches over a number of clients: the scalability law of their rates."""

from pathlib import Path

import pytest

from mqlab.report.capacity.scaling import scaling_blocks
from mqlab.report.capacity.trials import searches
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.content import Table
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
        "embedded", "requesters", "closed loop", "1,000", "0.05", "0.002", highest, "22", "0.0%",
    ]  # fmt: skip
