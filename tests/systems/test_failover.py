"""Real systems that are killed, and whose connections are reset: every message is accounted for, no process is left."""

from pathlib import Path

import psutil
import pytest

from process_helpers import commands_with
from runner.faults.faulty_runs import check_run, faulty
from runner.lab import conducted

# A message that is not redelivered within the drain phase counts as lost; JetStream waits for half of it.
_DRAIN_SECONDS = 20.0


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.needs_system(name)) for name in ("embedded", "rabbitmq", "artemis", "nats")],
)
def test_a_system_that_fails(name: str, tmp_path: Path) -> None:
    faults = ("kill at 300ms for 200ms", "reset at 300ms for 200ms")
    points = [faulty(fault, name=fault, drain=_DRAIN_SECONDS, prefetch=32) for fault in faults]
    children = psutil.Process().children()
    folder = conducted(tmp_path, points, systems=[name])
    for number, fault in enumerate(faults, 1):
        assert [row["fault"] for row in check_run(folder, number)] == [fault]
    assert not commands_with(str(tmp_path), psutil.process_iter())
    assert {*psutil.Process().children()} <= {*children}, "no process of the lab is left either"
