"""`mqlab doctor`, and the line about the machine before a run."""

from pathlib import Path

import pytest
import typer

from mqlab.cli import doctor
from mqlab.runner.doctor.machine_finding import MachineFinding

from .command import SMALL, document, here

BUSY = MachineFinding("swap", "much", "2.0 GiB used", "it waits for the disk", "swapoff -a")
QUIET = MachineFinding("clock", "fine", "tsc, 50 ns a reading")


def test_the_document_has_every_check(tmp_path: Path) -> None:
    result = here("doctor", "--seconds", "0.1", "--runs", tmp_path / "runs", "--json")
    assert result.exit_code == 0
    findings = document(result.stdout)["findings"]
    assert {"swap", "disk", "clock", "other processes"} <= {finding["check"] for finding in findings}
    assert {"check", "weight", "measured", "effect", "cure"} == {key for finding in findings for key in finding}


def test_people_get_a_table_and_the_cures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "all_findings", lambda *_: iter([BUSY, QUIET]))
    result = here("doctor")
    assert result.exit_code == 0
    assert "tsc, 50 ns a reading" in result.stdout
    assert result.stderr.strip() == "swap: it waits for the disk. Cure: swapoff -a."


def test_a_good_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "all_findings", lambda *_: iter([QUIET]))
    assert here("doctor").stderr.strip() == "Nothing on this machine would spoil a measurement."


@pytest.mark.parametrize("findings", [[QUIET], [QUIET, BUSY]])
def test_a_run_says_the_worst_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, findings: list[MachineFinding]
) -> None:
    monkeypatch.delenv("MQLAB_IGNORE_NOISE")
    monkeypatch.setattr(doctor, "quick_findings", lambda *_: iter(findings))
    monkeypatch.setattr("mqlab.cli.run._run_all", lambda *_, **__: [])
    monkeypatch.setattr("mqlab.cli.results.finish.exit_with_status", lambda _: None)
    (tmp_path / "my.yaml").write_text(SMALL)
    result = here("run", tmp_path / "my.yaml", "--runs", tmp_path / "runs")
    line = "This machine: swap: 2.0 GiB used; it waits for the disk. mqlab doctor tells more."
    assert result.exit_code == 0
    assert result.stderr.splitlines() == ([line] if BUSY in findings else [])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("compare", ("embedded", "embedded:monitoring=high", "--study", "jms-four-brokers")),
        ("capacity", ("embedded", "--goal", "latency.p99 < 10ms")),
        ("overhead", ("--setting", "trace=low")),
        ("demo", ()),
    ],
)
def test_so_do_the_other_commands_that_measure(
    monkeypatch: pytest.MonkeyPatch, command: str, words: tuple[str, ...]
) -> None:
    def end(*_: object, **__: object) -> None:
        raise typer.Exit

    monkeypatch.setattr(doctor, "quick_findings", lambda *_: iter([BUSY]))
    monkeypatch.setattr(f"mqlab.cli.experiments.{command}.run_study", end)
    assert "This machine: swap: 2.0 GiB used" not in here(command, *words).stderr, "noise is ignored"
    monkeypatch.delenv("MQLAB_IGNORE_NOISE")
    result = here(command, *words)
    assert (result.exit_code, result.stderr.count("This machine: swap: 2.0 GiB used")) == (0, 1), result.output
