import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from mqlab.cli.plan import plan
from mqlab.json_values import JsonObject
from mqlab.study import built_in_studies

FILE = """
study: mine
title: Mine
scenarios:
  A: {queues: 1, producers: [1, 2], consumers: 1, message: {size: 1KiB}, rate: 5k/s}
"""


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(plan)
    return CliRunner().invoke(app, list(arguments))


def document(*arguments: str) -> JsonObject:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: JsonObject = json.loads(result.stdout)
    return found


def test_points_runs_and_time() -> None:
    only = [argument for scenario in "ABCDEFGH" for argument in ("--only", scenario)]
    found = document("jms-four-brokers", "--scale", "full", *only)
    assert (found["study"], found["scale"]) == ("jms-four-brokers", "full")
    assert [point["scenario"] for point in found["points"]] == list("ABCDEFGH")
    assert found["points"][0]["runs"] == {"least": 2, "most": 5}
    assert found["points"][0]["seconds"] == {"least": 2020.0, "most": 5050.0}
    assert found["runs"] == {"least": 16, "most": 40}
    assert found["seconds"] == {"least": 16160.0, "most": 40400.0}


def test_only_some_scenarios() -> None:
    found = document("jms-four-brokers", "--only", "H", "--only", "B")
    assert [point["scenario"] for point in found["points"]] == ["B", "H"]


def test_a_table_for_people(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(FILE)
    result = run(str(tmp_path / "my.yaml"))
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[1] == "A producers=1 1 queue 1 1 1KiB no none free 1 5k/s 2 to 3 4.6 s to 6.9 s"
    assert lines[-1] == "total 2 4 to 6 9.2 s to 14 s"
    assert "mine at scale quick" in result.stderr


def test_points_that_share_their_runs_count_once(tmp_path: Path) -> None:
    more = ", settings: {monitoring: [off, high], sync: [on, off]}, switch: 400ms"
    study = FILE.replace("producers: [1, 2]", "producers: 1").replace("}, rate", f"}}{more}, rate")
    (tmp_path / "my.yaml").write_text(study)
    found = document(str(tmp_path / "my.yaml"))
    assert len(found["points"]) == 4
    assert (found["runs"], found["separate"]["runs"]) == ({"least": 4, "most": 6}, {"least": 8, "most": 12})
    result = run(str(tmp_path / "my.yaml"))
    assert "4 points of A share 2 runs a round, in which the lab switches embedded" in result.stderr


def test_requests_and_fixed_work(tmp_path: Path) -> None:
    roles = "{pattern: request-reply, queues: 1, requesters: 6, responders: 2, message: {size: 1KiB}, messages: 500}"
    head = "study: mine\ntitle: Mine\nsystems: {Q 1: []}\nstand_ins: {Q 1: embedded}\nsuccessors: {Q 1: [q, r]}\n"
    (tmp_path / "my.yaml").write_text(f"{head}scenarios:\n  A: {roles}\n")
    result = run(str(tmp_path / "my.yaml"))
    head, first, *_ = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "destinations requesters responders size" in head
    assert first == "A - 1 queue 6 2 1KiB no none free 1 max 2 to 3 500 messages"
    assert "mine at scale quick: up to 3 runs with a fixed number of messages on each system." in result.stderr
    assert "Unless you name a system, embedded replaces Q 1." in result.stderr
    assert "If you run it, q or r stands for Q 1." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.yaml"], f"nothing.yaml: no such file and no built-in study; accepted: {built_in_studies()[0]}, "),
        (["jms-four-brokers", "--scale", "slow"], "has no scale 'slow'; accepted: quick, standard, full"),
        (["jms-four-brokers", "--only", "Z"], "has no scenario 'Z'; accepted: A, B, C, D, E, F, G, H"),
    ],
)
def test_bad_input_is_one_sentence_on_stderr(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
