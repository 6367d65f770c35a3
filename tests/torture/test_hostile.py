"""The short form of the hostile soak: everything but the times is judged, for others may use this machine."""

import json

import pytest

from .hostile import main


def test_well_behaved_clients_notice_nothing_of_hostile_ones(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--seconds", "14", "--rounds", "2", "--seed", "7"])
    said, log = capsys.readouterr()
    figures = json.loads(said.strip().rpartition("\n")[2])
    assert code == 0, log
    assert figures["rounds"] == 2
    assert figures["requests"] > 0
    assert figures["confirmed"] > 0
    assert figures["attacks"] > 0
