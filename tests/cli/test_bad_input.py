"""Bad input is one sentence on stderr and exit code 2; nothing is made, and nothing is started."""

import json
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.runner import conductor

from .command import SMALL, here

FILE = "my.yaml"


@pytest.fixture(autouse=True)
def _nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(conductor.Conductor, "__init__", refuse)
    monkeypatch.delenv("MQLAB_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text(SMALL)


def check_one_sentence(*arguments: str, words: str) -> None:
    before = sorted(path for path in Path().rglob("*"))
    result = here(*arguments)
    said = " ".join(result.stderr.split())
    assert result.exit_code == 2, said
    assert result.stdout == ""
    assert words in said
    assert said.count("mqlab: ") == 1 or "Error" in said
    assert "Traceback" not in said
    assert sorted(path for path in Path().rglob("*")) == before, "nothing may be made"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "nothing: no such file and no built-in study; accepted: failover, ibmmq-943-trace, jms-"),
        (["nothing.yaml"], "nothing.yaml: no such file"),
        ([FILE, "nothing"], "nothing: no such file"),
        ([FILE, "--only", "Z"], "no scenario 'Z'; accepted: A, B"),
        ([FILE, "--scale", "slow"], "no scale 'slow'; accepted: quick, standard, full"),
        ([FILE, "--system", "rabbit"], "there is no system 'rabbit'; there are: "),
        ([FILE, "--system", "embedded:speed=9"], "no setting 'speed'"),
        ([FILE, "--system", "embedded:sync=maybe"], "'maybe' is none of on, off"),
        ([FILE, "--system", "embedded", "--system", "embedded"], "the system embedded is named twice"),
        ([FILE, "--agents", "0"], "--agents"),
        ([FILE, "--agents", "65"], "--agents 65: must be from 1 to 64"),
        ([FILE, "--agents", "many"], "--agents many: must be a number, or a Spark master such as spark://HOST:PORT"),
        ([FILE, "--agents", "sc://host"], "--agents sc://host: Spark Connect has no barrier stages"),
        ([FILE, "--agents", "spark://h:1", "--agent-count", "0"], "--agent-count"),
        ([FILE, "--agents", "2", "--agent-count", "2"], "--agent-count needs --agents with a Spark master"),
        ([FILE, "--no-such-option"], "--no-such-option"),
    ],
)
def test_run(arguments: list[str], words: str) -> None:
    check_one_sentence("run", *arguments, words=words)


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [("title: My own", "title: {a: b}", 3), ("scenarios:", "scenario:", 4), ("size: 12B", "size: 12 bananas", 5)],
)
def test_a_study_file_with_a_mistake_is_named_with_its_line(right: str, wrong: str, line: int) -> None:
    Path(FILE).write_text(SMALL.replace(right, wrong))
    check_one_sentence("run", FILE, words=f"{FILE}:{line}")


def test_a_place_for_runs_that_is_a_file() -> None:
    check_one_sentence("run", FILE, "--runs", FILE, words=FILE)


def test_a_place_for_the_data_that_is_not_there() -> None:
    check_one_sentence("run", FILE, "--data", "nowhere", words="--data nowhere: there is no folder")


def test_a_place_for_runs_below_a_file() -> None:
    check_one_sentence("run", FILE, "--runs", f"{FILE}/runs", words=FILE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option '--setting'"),
        (["--setting", "trace"], "write KEY=VALUE"),
        (["--setting", "trace="], "write KEY=VALUE"),
        (["--setting", "speed=9"], "embedded has no setting 'speed'; it has: "),
        (["--setting", "sync=maybe"], "'maybe' is none of on, off"),
        (["--setting", "sync=off", "--system", "rabbit"], "there is no system 'rabbit'"),
        (["--setting", "sync=on"], "sync already is on"),
        (["--setting", "sync=on,off", "--system", "embedded:sync=off"], "sync already is off"),
        (["--setting", "sync=off", "--workload", "nothing"], "--workload nothing: write STUDY:SCENARIO"),
        (["--setting", "sync=off", "--workload", "nothing:A"], "nothing: no such file"),
        (["--setting", "sync=off", "--workload", f"{FILE}:Z"], "mine has the scenarios A, B"),
        (["--setting", "sync=off", "--rounds", "1"], "--rounds"),
        (["--setting", "sync=off", "--seconds", "0"], "--seconds"),
    ],
)
def test_overhead(arguments: list[str], words: str) -> None:
    check_one_sentence("overhead", *arguments, words=words)


@pytest.mark.parametrize("command", ["measure", "report"])
class TestWhatIsNoRunFolder:
    def test_nothing(self, command: str) -> None:
        check_one_sentence(command, "nothing", words="nothing: not a run folder")

    def test_another_folder(self, command: str) -> None:
        Path("other").mkdir()
        check_one_sentence(command, "other", words="other: not a run folder (it has no meta.json)")

    def test_a_file(self, command: str) -> None:
        check_one_sentence(command, FILE, words=f"{FILE}: not a run folder")

    def test_a_folder_of_another_version(self, command: str) -> None:
        Path("old").mkdir()
        Path("old", "meta.json").write_text(json.dumps({"schema_version": 99}))
        check_one_sentence(command, "old", words="old: events of schema version 99")

    def test_a_meta_that_is_torn(self, command: str) -> None:
        Path("torn").mkdir()
        Path("torn", "meta.json").write_text('{"schema_version": 1, "st')
        check_one_sentence(command, "torn", words="torn: ")

    def test_a_study_with_a_mistake(self, command: str, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path, "edited")
        folder.write_meta({"study": "mine", "scale": "quick", "systems": []})
        (folder.study / "study.yaml").write_text(SMALL.replace("scenarios:", "scenario:"))
        check_one_sentence(command, str(folder.path), words="study.yaml:4")

    def test_no_argument(self, command: str) -> None:
        check_one_sentence(command, words="Missing argument")


def test_a_report_of_what_was_not_measured_says_what_to_do_first(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "new")
    folder.write_meta({"study": "mine", "scale": "quick", "systems": []})
    (folder.study / "study.yaml").write_text(SMALL)
    check_one_sentence("report", str(folder.path), words="not measured yet")
    check_one_sentence("report", str(folder.path), words=f"run this first: mqlab measure {folder.path}")


def test_no_command_shows_what_there_is() -> None:
    result = here()
    for command in ("studies", "systems", "plan", "run", "measure", "report", "broker"):
        assert command in result.output
