"""Each benchmark runs in its shortest form, whose figures mean nothing; and their arithmetic is right."""

import asyncio
import json
import random
import runpy
import shutil
import subprocess
import sys
from functools import partial
from math import exp, sqrt
from pathlib import Path
from types import ModuleType

import pytest

from mqlab.events.folder import RunFolder
from mqlab.runner.capability import why_unsupported
from mqlab.study.statistics import t975
from mqlab.systems import system
from pipeline.synthetic_runs import Run, write

FOLDER = Path(__file__).parents[2] / "bench"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))
IN_LAB = [script for script in SCRIPTS if "with Lab()" in script.read_text()]


@pytest.fixture
def common(import_benchmarks: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:  # noqa: ARG001
    import _common

    # A turn in which the host takes processor time would be measured again.
    monkeypatch.setattr(_common._noise, "allowed_percent", 100.0)
    return _common


def test_the_benchmarks_that_are_promised_are_there() -> None:
    promised = {
        "attacks", "before_after", "bindings", "capacity", "ceiling", "compare", "cpu_time", "drivers", "group_commit",
        "intervals", "noise", "page", "peers", "pipeline", "plain", "preload", "protocols", "ready", "recording",
        "recovery", "selectors", "trace",
    }  # fmt: skip
    assert promised <= {script.stem for script in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_it_imports_and_says_how_it_is_used(script: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, script, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "--quick" in ended.stdout
    assert "--rounds" in ended.stdout
    assert "--smoke" in ended.stdout
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if script not in IN_LAB], ids=lambda script: script.name
)
def test_it_works(script: Path, tmp_path: Path) -> None:
    """A script that has no `--smoke` fails here."""
    ended = subprocess.run(
        [sys.executable, script, "--smoke"], cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("spark", "import_benchmarks")
@pytest.mark.parametrize("script", IN_LAB, ids=lambda script: script.name)
def test_it_works_in_the_lab(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has a Spark session for the audit of all of them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--smoke"])
    runpy.run_path(str(script), run_name="__main__")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("import_benchmarks")
def test_each_protocol_is_compared_with_the_brokers_that_speak_it() -> None:
    import protocols

    found = protocols.keys(1, 1)
    assert {"amqp10_A", "amqp10_G", "mqtt_A", "mqtt_G", "stomp_A", "stomp_G"} <= {*found}
    others = {name: [*key.systems(["embedded", *protocols.OTHERS])] for name, key in found.items()}
    assert others["amqp10_A"] == others["amqp10_G"] == ["embedded", "artemis", "rabbitmq", "qpid"]
    assert others["mqtt_A"] == others["mqtt_G"] == ["embedded", "rabbitmq", "mosquitto"]
    assert others["stomp_A"] == others["stomp_G"] == ["embedded", "artemis", "rabbitmq"]
    for name, key in found.items():
        for configured in key.systems(["embedded", *protocols.OTHERS]).values():
            assert why_unsupported(system(configured), key.point) == "", f"{name} on {configured}"


@pytest.mark.usefixtures("import_benchmarks")
def test_a_difference_of_a_system_from_itself_is_found() -> None:
    """One that is there in every round, such as that of a process which is always first; and chance alone is not."""
    import noise

    chance = random.Random(7)
    shared = [exp(0.2 * chance.gauss()) for _ in range(60)]
    equal = [(one * exp(0.02 * chance.gauss()), one * exp(0.02 * chance.gauss())) for one in shared]
    found = noise._false_differences(equal)
    assert len(found) == 20
    assert sum(found) <= 3
    assert all(noise._false_differences([(1.3 * one, other) for one, other in equal]))


@pytest.mark.usefixtures("import_benchmarks")
def test_a_search_that_is_not_decided_keeps_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mqlab capacity` ends with 6 then, and still prints what it found."""
    import capacity

    found = {"status": "found", "low": 90.0, "high": 110.0}
    ends = [
        (0, [found | {"rate": 250.0}]),
        (6, [found | {"rate": 100.0}, {"status": "undecided", "rate": None, "low": None, "high": None}]),
        (0, [found | {"rate": 100.0}, found | {"rate": 104.0}]),
    ]
    outputs = iter(
        subprocess.CompletedProcess([], code, json.dumps({"answer": "", "capacities": searches}))
        for code, searches in ends
    )
    monkeypatch.setattr("capacity.subprocess.run", lambda *_, **__: next(outputs))
    results = capacity._real(2)
    assert (results["known_limit"], results["later"], results["undecided"]) == (1.0, 1.04, 1)
    assert results["repeated"]["value"] == 1.04
    assert [search["status"] for search in results["rates"]] == ["found", "undecided", "found", "found"]


@pytest.mark.usefixtures("import_benchmarks")
def test_the_best_of_the_others_was_measured_in_every_round() -> None:
    import _systems_in_turn as turns

    sides = {"own": turns.Side([9.0, 9.0]), "a": turns.Side([1.0, 2.0]), "b": turns.Side([3.0], "it ended")}
    assert turns.best(sides, ["own"]) == "a"
    assert turns.best({"own": sides["own"], "b": sides["b"]}, ["own"]) is None
    assert [side.shown for side in sides.values()] == [9, 2, 3]


@pytest.mark.usefixtures("import_benchmarks")
@pytest.mark.parametrize("requesters", [1, 8])
def test_the_bare_relay_brings_every_requester_its_replies(requesters: int) -> None:
    """Without them it fails, so that a rate of 0 only means that the time was too short."""
    import _bare_relay

    assert _bare_relay.round_trips(requesters, 1100, 1060, 0.1) >= 0


@pytest.mark.usefixtures("import_benchmarks")
def test_the_bare_relay_stores_a_message_before_it_confirms_it(tmp_path: Path) -> None:
    import _bare_relay

    rate = _bare_relay.confirmed_sends(tmp_path, 1100, 24, 0.1)
    (journal,) = tmp_path.iterdir()
    messages, part = divmod(journal.stat().st_size, 1100)
    assert part == 0
    assert messages > 0
    assert messages >= round(rate * 0.1)


@pytest.mark.usefixtures("import_benchmarks")
def test_a_key_without_its_client_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import _go_client
    import _tools

    # Neither a program of an earlier run nor a compiler.
    monkeypatch.setenv("MQLAB_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    client = _tools.Tool("embedded", _go_client.build, lambda *_: 1.0, "RR1")
    assert (client.key, client.unavailable()) == ("embedded_RR1", "no Go to build bench/go/round_trips with")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("import_benchmarks")
@pytest.mark.parametrize("name", ["nats", "redis"])
def test_the_client_in_go_gets_replies(name: str, tmp_path: Path) -> None:
    import _go_client
    import _tools

    if why := system(name).missing():
        pytest.skip(why)
    if shutil.which("go") is None or subprocess.run(["go", "mod", "download"], cwd=_go_client.SOURCE).returncode:
        pytest.skip("no Go, or none that gets modules")
    _go_client.build()

    async def rates() -> list[float]:
        running = await system(name).start(tmp_path / "system")
        try:
            return [_tools.round_trips(name, requesters, running, 0.2) for requesters in (1, 8)]
        finally:
            await running.stop()

    # On a busy machine none may end within the time, but each requester goes on until it has a reply.
    assert min(asyncio.run(rates())) >= 0


@pytest.mark.usefixtures("spark", "import_benchmarks")
def test_a_run_that_is_not_exact_ends_a_benchmark_with_the_reason(tmp_path: Path) -> None:
    import _lab

    _lab.check_audit(write(tmp_path / "exact", [Run(1).send(0, 10).receive(0, 10)]))
    lost = Run(2, scenario="G").send(0, 10).receive(0, 4).receive(5, 5)
    folder = write(tmp_path / "runs", [Run(1).send(0, 10).receive(0, 10), lost])
    with pytest.raises(SystemExit, match=r"^G on embedded: the audit of run 2 found: 1 lost$"):
        _lab.check_audit(folder)


@pytest.fixture
def audited(import_benchmarks: None, monkeypatch: pytest.MonkeyPatch) -> list[RunFolder]:  # noqa: ARG001
    """The folders that were audited."""
    import _lab

    folders: list[RunFolder] = []
    monkeypatch.setattr(_lab, "check_audit", folders.append)
    return folders


def test_a_benchmark_audits_its_runs_when_all_is_measured(audited: list[RunFolder]) -> None:
    import _lab

    with _lab.Lab(agents=0) as lab:
        assert audited == []
    assert audited == [lab.folder]
    assert not lab.folder.path.exists()


def test_a_benchmark_that_failed_has_nothing_to_audit(audited: list[RunFolder]) -> None:
    import _lab

    with pytest.raises(SystemExit, match="nothing arrived"), _lab.Lab(agents=0) as lab:
        raise SystemExit("nothing arrived")
    assert audited == []
    assert not lab.folder.path.exists()


def test_a_rate_of_nothing_has_no_ratio(common: ModuleType) -> None:
    assert common.ratio([1.0, 0.0], [1.0, 1.0])["value"] is None
    assert common.ratio([1.0], [0.0])["value"] is None


def test_a_ratio_is_the_geometric_mean_of_the_rounds(common: ModuleType) -> None:
    # Twice as fast in one round and half as fast in the other: equal, whatever the levels are.
    found = common.ratio([200.0, 5.0], [100.0, 10.0])
    assert (found["value"], found["rounds"]) == (1.0, 2)
    assert found["low"] < 1 < found["high"]


def test_the_interval_of_a_ratio_is_students(common: ModuleType) -> None:
    # Logarithms -0.1, 0 and 0.1: their deviation is 0.1.
    half = t975(2) * 0.1 / sqrt(3)
    assert common.ratio([exp(-0.1), 1.0, exp(0.1)], [1.0, 1.0, 1.0]) == {
        "value": 1.0, "low": round(exp(-half), 4), "high": round(exp(half), 4), "rounds": 3,
    }  # fmt: skip


def test_a_ratio_compares_only_within_a_round(common: ModuleType) -> None:
    with pytest.raises(ValueError):
        common.ratio([1.0, 2.0], [1.0])
    assert common.ratio([10.0, 1000.0], [5.0, 500.0]) == {"value": 2.0, "low": 2.0, "high": 2.0, "rounds": 2}


def test_a_level_is_the_mean_with_its_interval(common: ModuleType) -> None:
    half = t975(2) * 10 / sqrt(3)
    assert common.level([90.0, 100.0, 110.0]) == {
        "value": 100.0, "low": round(100 - half, 4), "high": round(100 + half, 4), "rounds": 3,
    }  # fmt: skip


@pytest.mark.parametrize(("function", "arguments"), [("ratio", ([3.0], [2.0])), ("level", ([1.5],))])
def test_one_round_has_no_interval(common: ModuleType, function: str, arguments: tuple[list[float], ...]) -> None:
    found = getattr(common, function)(*arguments)
    assert found == {"value": 1.5, "low": None, "high": None, "rounds": 1}


def test_a_turn_in_which_nothing_arrived_is_measured_again(common: ModuleType) -> None:
    values = iter([0.0, 0.0, 5.0, 7.0])
    assert common.interleaved({"a": lambda: next(values)}, 2) == {"a": [5.0, 7.0]}


def test_a_side_where_nothing_ever_arrives_is_no_figure(common: ModuleType) -> None:
    with pytest.raises(SystemExit, match="a: nothing arrived"):
        common.interleaved({"a": lambda: 0.0}, 1)


def test_every_round_measures_every_side_once_by_chance(common: ModuleType) -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    sides = {name: partial(side, name) for name in "abc"}
    found = common.interleaved(sides, 50)
    rounds = [tuple(order[at : at + 3]) for at in range(0, 150, 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) == 6, "a side follows every other one"
    assert found["a"] == [float(at + 1) for at, name in enumerate(order) if name == "a"]
    # The same chance each time: a benchmark can be repeated.
    assert common.interleaved(sides, 50)["a"] == [value + 150 for value in found["a"]]
