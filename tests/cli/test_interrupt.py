"""Ctrl-C at any moment: exit code 130, no process left, and what was recorded is kept and can be used."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from mqlab.cli.terminal import interrupt
from mqlab.cli.terminal.console import Exit
from mqlab.events.folder import RunFolder, run_folders
from mqlab.pipeline.measure_tables import check_measures, read_table
from pipeline.cases import CASES
from pipeline.synthetic_runs import write

from .command import PROGRAM, SMALL, Background, document, here

# The first scenario is over at once, the second would take a minute. Both wait for confirmations: before those that do
# not, the lab finds out what the driver reaches, which takes longer than all of this.
LONG = SMALL.replace("rate: 400/s}", "phases: {measure: 60s}, repeat: {least: 1, most: 1, until: none}}").replace(
    "quick: {phases: {warmup: 100ms, measure: 400ms, drain: 60s}, ", "quick: {phases: {warmup: 100ms, drain: 2s}, "
).replace("message: {size: 12B}}", "message: {size: 12B}, send: confirmed, phases: {measure: 300ms}}")  # fmt: skip
# Passes its own stdin on to a terminal in which the command runs, and what is shown there on to stderr.
IN_A_TERMINAL = (
    sys.executable, "-c",
    "import os, pty, sys; os.dup2(2, 1); sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))",
)  # fmt: skip


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "long.yaml"
    path.write_text(LONG)
    return path


def only_folder(runs: Path) -> RunFolder:
    (path,) = run_folders(runs)
    return RunFolder.open(path)


def spark_is_up(command: Background) -> bool:
    """Java runs, and the session has made its folder for blocks."""
    folders = [re.search(r"spark\.local\.dir=(\S+)", " ".join(java.cmdline())) for java in command.descendants("java")]
    return any([*Path(found[1]).glob("blockmgr-*")] for found in folders if found)


def interrupted(folder: Path, *arguments: str | Path, when: Callable[[Background], object]) -> str:
    """Returns the words."""
    with Background(folder, *PROGRAM, *arguments) as command:
        command.wait_until(lambda: when(command))
        command.interrupt()
        code, out = command.end()
        assert (code, out) == (130, ""), command.stderr
        return command.stderr


def wait_for_load(command: Background, run: str) -> None:
    """Until the run has begun and its agents have worked for longer than it takes them to get ready."""
    command.wait_for_output(run)
    command.wait_until(lambda: len(command.descendants("mqlab broker")) == 1)
    assert spark_is_up(command), "Spark was started before the load, from which it would take processor time"
    agents = command.descendants("mqlab.runner.agents.process")
    assert len(agents) == 2

    def worked() -> float:
        return sum(agent.cpu_times().user for agent in agents)

    begin = worked()
    command.wait_until(lambda: worked() > begin + 0.3)


def interrupted_under_load(tmp_path: Path, study: Path, number: int, *options: str, run: str) -> tuple[str, RunFolder]:
    command_line: tuple[str | Path, ...] = (*PROGRAM, "run", study, *options, "--json", "--runs", tmp_path / "runs")
    with Background(tmp_path, *command_line) as command:
        wait_for_load(command, run)
        command.interrupt(number)
        code, out = command.end()
        assert (code, out) == (130, ""), command.stderr
        return command.stderr, only_folder(tmp_path / "runs")


def test_in_the_middle_of_a_run(tmp_path: Path, study: Path) -> None:
    said, folder = interrupted_under_load(tmp_path, study, signal.SIGINT, run="run 2 of 2: B")
    assert said.splitlines()[-1] == (
        f"mqlab: interrupted; the incomplete run folder is {folder.path}; to go on: mqlab run --resume {folder.path}"
    )
    assert "Traceback" not in said
    assert folder.meta()["status"] == "incomplete"
    assert not [*folder.path.glob(".systems*")]
    # The other commands work on what there is, even after another Ctrl-C, while Java starts: the run that was complete
    # has its figures.
    words = interrupted(tmp_path, "measure", folder.path, when=lambda command: command.descendants("spark"))
    assert words.splitlines()[-1] == f"mqlab: interrupted; the events are kept: mqlab measure {folder.path}"
    assert "Traceback" not in words
    assert here("measure", folder.path).exit_code == 7, "as the run itself"
    audits = {audit["scenario"]: (audit["status"], audit["reason"]) for audit in read_table(folder, "audits")}
    assert audits == {"A": ("clean", ""), "B": ("incomplete", "interrupted")}
    assert {measure["scenario"] for measure in read_table(folder, "measures")} == {"A"}
    result = here("report", folder.path, "--json")
    assert (result.exit_code, document(result.stdout)["status"]) == (7, "incomplete")
    assert "incomplete" in (folder.report / "index.html").read_text()


def test_a_polite_kill_is_the_same(tmp_path: Path, study: Path) -> None:
    _, folder = interrupted_under_load(tmp_path, study, signal.SIGTERM, "--only", "B", run="run 1 of 1: B")
    assert folder.meta()["status"] == "incomplete"


def test_a_second_ctrl_c_does_not_spoil_the_cleaning_up(tmp_path: Path, study: Path) -> None:
    with Background(tmp_path, *PROGRAM, "run", study, "--only", "B", "--runs", tmp_path / "runs") as command:
        wait_for_load(command, "run 1 of 1: B")
        command.interrupt()
        for _ in range(5):
            time.sleep(0.02)
            if command.process.poll() is None:
                command.interrupt()
        code, _ = command.end()
        # Once all is cleaned up, a signal may end the process itself; to a shell that is 130 as well.
        assert code in (130, -signal.SIGINT), command.stderr
        assert "mqlab: interrupted" in command.stderr
        assert "Traceback" not in command.stderr
    assert only_folder(tmp_path / "runs").meta()["status"] == "incomplete"


@pytest.mark.parametrize("word", ["mqlab.runner.agents.process", "mqlab broker", "spark"])
def test_while_the_processes_are_starting(tmp_path: Path, study: Path, word: str) -> None:
    with Background(tmp_path, *PROGRAM, "run", study, "--only", "B", "--runs", tmp_path / "runs") as command:
        command.wait_until(lambda: command.descendants(word))
        command.interrupt()
        code, _ = command.end()
        assert code == 130, command.stderr
        assert "Traceback" not in command.stderr
    folder = only_folder(tmp_path / "runs")
    assert folder.meta()["status"] == "incomplete"


def test_in_a_terminal_with_bars(tmp_path: Path, study: Path) -> None:
    """A real Ctrl-C: the terminal turns it into a signal for all processes in its foreground."""
    command = (*IN_A_TERMINAL, *PROGRAM, "run", study, "--runs", tmp_path / "runs")
    with Background(tmp_path, *command, TERM="xterm-256color", COLUMNS="120") as terminal:
        assert terminal.process.stdin is not None
        terminal.wait_for_output("2 of 2: B, measure (60 s)")
        assert len(terminal.descendants("mqlab.runner.agents.process")) == 2
        terminal.record_descendants()
        terminal.process.stdin.write(b"\x03")
        terminal.process.stdin.flush()
        code, _ = terminal.end()
        shown = terminal.stderr
    assert code == 130, shown
    assert "1 of 2: A, prepare" in shown or "1 of 2: A, warm-up" in shown
    assert "interrupted" in shown
    assert "Traceback" not in shown
    assert only_folder(tmp_path / "runs").meta()["status"] == "incomplete"


def test_while_spark_works(tmp_path: Path) -> None:
    study, runs = tmp_path / "small.yaml", tmp_path / "runs"
    study.write_text(SMALL)

    def has_tasks(command: Background) -> bool:
        return bool(command.descendants("pyspark.daemon"))

    said = interrupted(tmp_path, "run", study, "--only", "B", "--runs", runs, when=has_tasks)
    folder = only_folder(runs)
    assert said.splitlines()[-1] == f"mqlab: interrupted; the events are kept: mqlab measure {folder.path}"
    assert "Traceback" not in said
    assert folder.meta()["status"] == "complete", "all of the load is there"


def test_while_the_counts_are_checked(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", [CASES["lost"]])
    said = interrupted(tmp_path, "measure", folder.path, "--check", when=is_checking)
    assert said.splitlines()[-1] == "mqlab: interrupted; the measures are kept"
    assert "Traceback" not in said
    check_measures(folder)


def is_checking(command: Background) -> bool:
    return "counting all events a second time, in SQL" in command.stderr


def test_a_child_that_has_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java starts and ends processes all the time: one may be gone before it is killed."""
    killed: list[int] = []
    monkeypatch.setattr(interrupt, "_end_output", lambda: None)
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        ended = psutil.Process(child.pid)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [ended, psutil.Process(other.pid)])
        monkeypatch.setattr(interrupt, "exit_at_once", lambda: killed.append(other.wait(30)))
        with interrupt.exit_on_signal("the work was interrupted"):
            signal.raise_signal(signal.SIGINT)
    assert killed == [-signal.SIGKILL]


def test_nothing_is_printed_after_the_sentence() -> None:
    """Also by a handler of logging, which has its own reference to stderr."""
    program = """
import atexit, logging, os, signal
from mqlab.cli.terminal.interrupt import exit_on_signal
logging.basicConfig()
atexit.register(logging.error, "late")
with exit_on_signal("interrupted"):
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == Exit.INTERRUPTED
    assert ended.stderr == "mqlab: interrupted\n"
