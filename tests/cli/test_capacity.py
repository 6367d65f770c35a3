"""`mqlab capacity`: its words and its exit codes, with real runs of a goal that no rate holds.

`make test-capacity` also finds a known limit: that takes a minute, and a machine that does nothing else.
"""

import os
from pathlib import Path

import pytest

from mqlab.json_values import JsonObject

from .command import document, here

# A sync completes at the next of 250 marks a second, and a producer waits for the sync of each message: the lowest
# rate that a run of 0.2 s can tell is among the first that are tried.
SYSTEM = "embedded:disk_marks=250"
ORDERS = """
study: orders
title: Orders
scenarios:
  orders: {queues: 1, producers: 1, consumers: 1, message: {size: 1KiB, persistent: yes}, send: confirmed}
  other: {queues: 1, producers: 1, consumers: 1, message: {size: 1KiB}}
"""


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The lab's own work is not measured here: it takes longer than these runs.
    monkeypatch.setattr("mqlab.runner.conductor.combinations", lambda *_: [])
    file = tmp_path / "orders.yaml"
    file.write_text(ORDERS)
    return file


def searches(file: Path, goal: str, *options: str) -> tuple[int, list[JsonObject], str]:
    of_orders = (
        "--study",
        file,
        "--scenario",
        "orders",
        "--goal",
        goal,
        "--seconds",
        "0.2",
        "--runs",
        file.parent / "runs",
    )
    result = here("capacity", SYSTEM, *of_orders, *options, "--json")
    assert result.stdout, result.stderr
    made = document(result.stdout)
    return result.exit_code, made["capacities"], made["answer"]


@pytest.mark.skipif("MQLAB_TEST_CAPACITY" not in os.environ, reason="make test-capacity: it needs a quiet machine")
@pytest.mark.usefixtures("spark")
def test_a_known_limit_is_found_within_3_percent(orders: Path) -> None:
    code, (capacity,), answer = searches(orders, "latency.p50 < 50ms", "--seconds", "2")
    assert (code, capacity["status"]) == (0, "found"), answer
    assert capacity["rate"] == pytest.approx(250, rel=0.03)
    assert capacity["low"] <= capacity["rate"] < capacity["high"]
    assert "within latency.p50 < 50ms, confirmed in " in answer


@pytest.mark.usefixtures("spark")
def test_a_goal_that_no_rate_holds_on_a_system_beside_itself(orders: Path) -> None:
    code, (first, again), answer = searches(orders, "confirm.p50 < 0.001ms", "--aa")
    # On a machine that is busy with something else, runs may be disturbed and leave a search undecided.
    statuses = [first["status"], again["status"]]
    assert {*statuses} <= {"below", "undecided"}
    assert code in (4, 6)
    assert (first["system"], again["system"]) == (SYSTEM, f"{SYSTEM} again")
    said = answer.count("even at 110/s, the lowest rate that a run can tell: confirm.p50 was")
    assert said == statuses.count("below")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--goal", "10ms"), "'10ms, within 1.5%' is not a goal"),
        (("--goal", "latency.p99 < 10ms", "--within", "0%"), "a rate is found within 0.1% to 100%"),
        (("--goal", "latency.p99 < 10ms", "--study", "{orders}"), "orders has the scenarios orders, other; name one"),
        (("--goal", "response.p99 < 10ms"), "response.p99 needs pattern: request-reply"),
    ],
)
def test_bad_words(orders: Path, options: tuple[str, ...], sentence: str) -> None:
    result = here("capacity", "embedded", *(option.replace("{orders}", str(orders)) for option in options))
    assert result.exit_code == 2
    assert sentence in result.stderr
