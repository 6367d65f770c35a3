"""The page about sizing: its commands, to the letter. `make test-capacity` plays their runs, others only plan them."""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from mqlab.runner.conductor import RunPlan
from mqlab.study import load_study
from mqlab.study.capacity.goal import LatencyGoal

from .command import here
from .test_howto import PAGES, first_block

PAGE = "size.md"
PLAYED = "MQLAB_TEST_CAPACITY" in os.environ


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RunPlan]:
    """The plans of the commands, in a folder with the study of the page."""
    (tmp_path / "orders.yaml").write_text(first_block(PAGE, "yaml"))
    monkeypatch.chdir(tmp_path)
    planned: list[RunPlan] = []

    def plan(order: RunPlan) -> None:
        planned.append(order)
        raise typer.Exit

    if not PLAYED:
        monkeypatch.setattr("mqlab.cli.run._run_all", lambda orders, *_, **__: plan(orders[0]))
        monkeypatch.setattr("mqlab.cli.experiments.capacity.run_study", lambda order, *_, **__: plan(order))
    return planned


def commands() -> list[list[str]]:
    text = (PAGES / PAGE).read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line.strip()]


def test_every_command_works(orders: list[RunPlan], request: pytest.FixtureRequest) -> None:
    if PLAYED:
        request.getfixturevalue("spark")
    for words in commands():
        result = here(*words)
        accepted = (0, 4, 6) if words[0] == "capacity" else (0,)
        assert result.exit_code in accepted, f"{words}: {result.output}"
    if not PLAYED:
        goals = [order.study.scenarios[name].find for order in orders for name in order.study.scenarios]
        assert goals == [
            LatencyGoal("latency.p99", 0.05), LatencyGoal("latency.p99", 0.01), LatencyGoal("latency.p99.9", 0.1, 0.05),
            LatencyGoal("latency.p99", 0.01), LatencyGoal("latency.p99", 0.01),
        ]  # fmt: skip
        scenarios = [[point.scenario for point in order.points] for order in orders]
        assert scenarios == [["orders"], ["orders"], ["queue"], ["queue"], ["queue"]]
        assert [len(order.systems) for order in orders] == [1, 1, 1, 2, 2]


def test_the_study_of_the_page_has_no_rate(orders: list[RunPlan]) -> None:
    (point,) = load_study("orders.yaml").points("quick")
    assert (point.rate, point.producers, orders) == (None, 4, [])
    assert (
        "The search for the highest rate of orders within latency.p99 < 50ms adds" in here("plan", "orders.yaml").stderr
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("send: confirmed", "rate: 5k/s"), "find chooses the rate; leave rate out"),
        (lambda text: text.replace("send: confirmed", "messages: 100"), "find needs a steady state"),
        (lambda text: text.replace("< 50ms", "50ms"), "is not a goal; write latency.p99 < 10ms"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_what_a_search_cannot_do(change: Callable[[str], str], reason: str) -> None:
    file = Path("orders.yaml")
    file.write_text(change(file.read_text()))
    result = here("plan", file)
    assert result.exit_code == 2
    assert reason in result.stderr
