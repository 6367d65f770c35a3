"""What `mqlab run` makes of its arguments; nothing is run."""

import shlex
from pathlib import Path

import pytest
import typer

from mqlab.runner.conductor import RunPlan
from mqlab.systems import System

from .command import SMALL, here

PACKING = """
study: old
title: As in former versions
scenarios:
  A: {topics: 1, producers: 1, consumers: 1, message: {size: 12B}, batch: [1, 100]}
  B: {topics: 1, producers: 1, consumers: 1, message: {size: 12B}, send: confirmed, batch: 100}
"""


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[RunPlan]:
    """The plans of the commands so far."""
    found: list[RunPlan] = []

    def keep(plan: RunPlan, *_: object, **__: object) -> None:
        found.append(plan)
        raise typer.Exit(0)

    monkeypatch.setattr("mqlab.cli.run.run_study", keep)
    return found


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--only", "B"],
        ["--scale", "standard", "--system", "embedded:sync=off", "--system", "embedded", "--only", "B", "--only", "A"],
    ],
)
def test_the_command_for_a_longer_run_can_be_copied(plans: list[RunPlan], tmp_path: Path, options: list[str]) -> None:
    file = tmp_path / "my study.yaml"
    file.write_text(SMALL)
    here("run", file, *options, "--minutes", "3")
    here(*shlex.split(f"{plans[0].again} --minutes 3")[1:])
    first, second = (
        (plan.study.files, plan.scale, [*plan.points], [system.label for system in plan.systems]) for plan in plans
    )
    assert first == second


def test_the_command_for_a_longer_run_is_about_one_study_of_several(plans: list[RunPlan]) -> None:
    here("run", "jms-four-brokers", "sunmq-wmq-2003", "--minutes", "3")
    assert [plan.again for plan in plans] == ["mqlab run jms-four-brokers --scale quick"]


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.usefixtures("plans")
def test_batches_that_no_longer_pack_are_deprecated(tmp_path: Path, command: str) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(PACKING)
    ended = here(command, file)
    assert ended.exit_code == 0
    assert [line for line in ended.stderr.splitlines() if "deprecated" in line] == [
        "old: scenario A: batch: 100 with send: free is deprecated, and packs nothing; pack messages with the setting"
        " packed=100 of a system, like --system embedded:packed=100"
    ]


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (["installed"], ["embedded", "nats", "redis"]),
        (["nats:sync=no", "installed"], ["nats:sync=no", "embedded", "nats", "redis"]),
        (["redis", "installed"], ["redis", "embedded", "nats"]),
        (["redis"], ["redis"]),
    ],
)
def test_all_installed_systems_have_one_word(
    plans: list[RunPlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], labels: list[str]
) -> None:
    def not_ready(system: System) -> str:
        return "" if system.name in ("embedded", "nats", "redis") else "no"

    for module in ("mqlab.cli.systems.names", "mqlab.cli.run"):
        monkeypatch.setattr(f"{module}.not_ready", not_ready)
    file = tmp_path / "my.yaml"
    file.write_text(SMALL)
    assert here("run", file, *(part for word in words for part in ("--system", word))).exit_code == 0
    (plan,) = plans
    assert [system.label for system in plan.systems] == labels
    assert plan.options is not None
    assert plan.options["systems"] == labels, "a resumed run has the same systems"
