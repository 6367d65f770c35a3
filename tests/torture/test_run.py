"""The runner of the long forms: that it runs them, adds up their figures and tells a failure. They are not run here."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .rows import ROWS, Row
from .run import ROOT, main

SCRIPT = ROOT / "tests" / "torture" / "run.py"
TESTS = """
import os

def test_one(record_property):
    record_property("points", 20 if os.environ.get("MQLAB_TORTURE") else 2)
    record_property("peak_percent", 90)

def test_other(record_property):
    record_property("points", 3)
    record_property("peak_percent", 70)
    record_property("words", "no number")
"""


@pytest.fixture
def tests(tmp_path: Path) -> str:
    (tmp_path / "test_small.py").write_text(TESTS)
    return str(tmp_path / "test_small.py")


def script(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "script.py"
    path.write_text(text)
    return (str(path),)


def document(capfd: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(capfd.readouterr().out)
    return found


def test_rows_have_names_of_their_own_and_what_they_run_is_there() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert bool(row.tests) != bool(row.script)
        files = [part for part in (*row.tests, *row.script[:1]) if "/" in part]
        assert files
        assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.script], ids=lambda row: row.name)
def test_a_script_takes_the_options_it_is_given(row: Row) -> None:
    """Its help names them."""
    said = subprocess.run([sys.executable, ROOT / row.script[0], "--help"], capture_output=True, text=True, check=True)
    named = {option for option in (*row.script[1:], *row.quick) if option.startswith("--")}
    assert named <= set(re.findall(r"--[a-z]+", said.stdout))


def test_every_row_stands_in_the_documentation() -> None:
    text = (ROOT / "docs" / "trust.md").read_text()
    assert [row.name for row in ROWS if f"`{row.name}`" not in text] == []


def test_figures_of_tests_are_added_up(tests: str, capfd: pytest.CaptureFixture[str]) -> None:
    row = Row("small", "a row", tests=(tests,), least={"points": 23})
    assert main([], [row]) == 0
    found = document(capfd)["small"]
    assert (found["points"], found["peak_percent"], found["tests"], found["ok"]) == (23, 90, 2, True)
    assert "words" not in found


def test_the_short_form_need_not_reach_the_figure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told = script(tmp_path, "import sys; print('{\"points\": %s}' % sys.argv[1])")
    row = Row("small", "a row", script=(*told, "23"), quick=("5",), least={"points": 23})
    assert main([], [row]) == 0
    assert document(capfd)["small"]["points"] == 23
    assert main(["--quick"], [row]) == 0
    assert document(capfd)["small"]["points"] == 5


def test_a_figure_that_is_not_reached_is_a_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told = script(tmp_path, "print('{\"points\": 23}')")
    rows = [Row("small", "a row", script=told, least={"points": 24}), Row("other", "a row", script=told)]
    assert main([], rows) == 1
    said = capfd.readouterr()
    assert [one["ok"] for one in json.loads(said.out).values()] == [False, True]
    assert "points 23 < 24" in said.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("print('{\"lost\": 1}')", "lost 1"),
        ('print(\'{"lost": {"messages": 2}}\')', "lost.messages 2"),
        ("print('{\"lost\": 0}'); raise SystemExit(3)", "exit code 3"),
        ("print('no figures')", "says nothing"),
    ],
)
def test_a_script_that_fails_is_a_failure(
    text: str, why: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([], [Row("script", "a row", script=script(tmp_path, text), none=("lost",))]) == 1
    assert why in capfd.readouterr().err


def test_a_script_says_its_figures_in_its_last_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = 'print(\'on the way\'); print(\'{"found": 3, "lost": 0, "rate": {"small": 1.5}}\')'
    row = Row("script", "a row", script=script(tmp_path, text), least={"rate.small": 1}, none=("lost",))
    assert main([], [row]) == 0
    assert document(capfd)["script"]["found"] == 3


def test_a_failing_test_is_a_failure_and_its_figures_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "test_bad.py"
    path.write_text("def test_bad(record_property):\n    record_property('points', 7)\n    assert False\n")
    assert main([], [Row("bad", "a row", tests=(str(path),))]) == 1
    assert document(capfd)["bad"]["points"] == 7


def test_rows_can_be_chosen_and_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == [row.name for row in ROWS]
    with pytest.raises(SystemExit) as ended:
        main(["--only", "nothing"])
    assert ended.value.code == 2


def test_an_interrupt_ends_what_runs_and_tells_what_was_reached(tmp_path: Path) -> None:
    """As Ctrl-C at a terminal: the whole group hears it."""
    mark = tmp_path / "mark"
    waiting = tmp_path / "waiting.py"
    waiting.write_text(f"import time, pathlib\npathlib.Path({str(mark)!r}).touch()\ntime.sleep(300)\n")
    told = script(tmp_path, "print('{\"found\": 3}')")
    program = (
        # Whoever runs the tests in the background may have told their processes to ignore it.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"import sys; sys.path[:0] = [{str(SCRIPT.parent)!r}, {str(SCRIPT.parents[1])!r}]\n"
        "from torture.rows import Row\nfrom torture.run import main\n"
        f"rows = [Row('told', 'a row', script={told!r}), Row('waits', 'a row', script=({str(waiting)!r},))]\n"
        "sys.exit(main([], rows))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 240
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 130
    assert json.loads(out) == {"told": {"found": 3, "ok": True, "seconds": json.loads(out)["told"]["seconds"]}}
