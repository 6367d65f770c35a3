"""`mqlab broker trace`: levels, and records in files."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mqlab.broker.server.trace.records import SCHEMA
from mqlab.client import RefusedError, connect
from mqlab.study import load_study

from .command import PROGRAM, Background, document, here, mqlab
from .running_broker import broker_process


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("broker")
    with broker_process(folder) as (_, address):
        yield address


@pytest.fixture(autouse=True)
def here_it_is(at: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody is traced before a test, nor after it."""
    monkeypatch.setenv("MQLAB_BROKER", at)
    yield
    with connect(at) as connection:
        connection.ask("trace", level="off")
        for one in connection.ask("trace")["said"]:
            connection.ask("trace", level="default", application=one["application"])
        with suppress(RefusedError):
            connection.ask("purge", name="queue:mqlab.trace")


def put(at: str, application: str, count: int = 1) -> None:
    with connect(at, application=application) as connection:
        producer = connection.session().producer("queue:a")
        for _ in range(count):
            producer.send(b"x")


class TestLevels:
    def test_they_are_shown_and_set(self, at: str) -> None:
        assert document(here("broker", "trace", "--json").stdout)["level"] == "off"
        assert here("broker", "trace", "--level", "low").exit_code == 0
        assert here("broker", "trace", "--level", "high", "--application", "Requester*").exit_code == 0
        found = document(here("broker", "trace", "--json").stdout)
        assert (found["level"], found["said"]) == ("low", [{"application": "Requester*", "level": "high"}])
        with connect(at, application="Requester5"):
            result = here("broker", "trace")
        assert [line.split() for line in result.stdout.splitlines()[1:]] == [
            ["Requester*", "high", "run", "time"], ["all", "others", "low", "setting"],
        ]  # fmt: skip
        assert "Requester5: high, connections: 1" in result.stderr
        assert here("broker", "trace", "--level", "default", "--application", "Requester*").exit_code == 0
        assert document(here("broker", "trace", "--json").stdout)["said"] == []

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--application", "a"), "--application needs --level"),
            (("--level", "default"), "--level default needs --application"),
            (("--level", "loud"), "Invalid value for '--level'"),
            (("--level", "low", "--application", "a*b"), "a star may stand at the end"),
            (("--follow",), "--follow needs a FILE"),
        ],
    )
    def test_nonsense_is_refused(self, options: tuple[str, ...], words: str) -> None:
        result = here("broker", "trace", *options)
        assert result.exit_code == 2
        assert words in result.stderr


class TestFile:
    def test_what_was_recorded_is_in_it(self, at: str, tmp_path: Path) -> None:
        here("broker", "trace", "--level", "medium", "--application", "Requester*")
        for number in range(3):
            put(at, f"Requester{number}", 5)
        put(at, "Responder0")
        file = tmp_path / "trace.parquet"
        result = here("broker", "trace", file)
        assert result.exit_code == 0
        table = pq.read_table(file)
        assert table.schema.equals(SCHEMA)
        assert f"{table.num_rows:,} records in {file}" in result.stderr
        found = table.to_pylist()
        assert {one["application"] for one in found} == {f"Requester{number}" for number in range(3)}
        assert sum(one["messages"] for one in found if one["operation"] == "put") == 15
        assert [*tmp_path.iterdir()] == [file]
        # It is gone from the broker.
        again = document(here("broker", "trace", tmp_path / "again.parquet", "--json").stdout)
        assert again == {"records": 0, "files": [str(tmp_path / "again.parquet")], "dropped": 0, "unreadable": 0}
        assert pq.read_table(tmp_path / "again.parquet").num_rows == 0

    def test_a_file_that_is_there_stays(self, at: str, tmp_path: Path) -> None:
        here("broker", "trace", "--level", "low", "--application", "App")
        put(at, "App")
        file = tmp_path / "trace.parquet"
        file.write_text("mine")
        result = here("broker", "trace", file)
        assert (result.exit_code, file.read_text()) == (2, "mine")
        assert "already exists" in result.stderr
        result = here("broker", "trace", tmp_path / "missing" / "trace.parquet")
        assert result.exit_code == 2
        assert "cannot be written" in result.stderr
        # What was not written is still with the broker.
        assert document(here("broker", "trace", tmp_path / "good.parquet", "--json").stdout)["records"] > 0

    def test_what_is_no_record_is_left_out(self, at: str, tmp_path: Path) -> None:
        with connect(at) as connection:
            connection.session().producer("queue:mqlab.trace").send(b"forged")
        here("broker", "trace", "--level", "low", "--application", "App")
        put(at, "App")
        result = here("broker", "trace", tmp_path / "trace.parquet")
        assert result.exit_code == 0
        assert "1 messages were not trace records" in result.stderr
        assert pq.read_table(tmp_path / "trace.parquet").num_rows > 0

    def test_following_ends_in_good_order(self, at: str, tmp_path: Path) -> None:
        here("broker", "trace", "--level", "low", "--application", "App")
        file = tmp_path / "trace.parquet"
        command = (*PROGRAM, "broker", "trace", file, "--follow", "--every", "0.3", "--at", at, "--json")
        with Background(tmp_path, *command) as following:
            put(at, "App", 3)
            following.wait_until(file.exists)
            put(at, "App", 4)
            following.wait_until((tmp_path / "trace-2.parquet").exists)
            put(at, "App", 5)
            with connect(at) as connection:
                connection.ask("trace")
            following.interrupt(signal.SIGINT)
            code, out = following.end()
        assert code == 0
        names = document(out)["files"]
        assert names[:2] == [str(file), str(tmp_path / "trace-2.parquet")]
        here("broker", "trace", tmp_path / "rest.parquet")
        found = [one for name in (*names, tmp_path / "rest.parquet") for one in pq.read_table(name).to_pylist()]
        assert sum(one["messages"] for one in found if one["operation"] == "put") == 12
        assert not [*tmp_path.glob("*.partial")]


def test_a_bad_file_of_stanzas_stops_the_start(tmp_path: Path) -> None:
    stanzas = tmp_path / "stanzas"
    stanzas.write_text("ApplicationTrace:\n  ApplName=a\n  Trace=MAYBE\n")
    ended = mqlab("broker", "--listen", "tcp:127.0.0.1:0", "--trace-file", stanzas)
    assert ended.returncode == 2
    assert ended.stderr.strip() == f"mqlab: {stanzas}:3: Trace=MAYBE is none of ON, OFF"


def test_its_load_becomes_a_study(at: str, tmp_path: Path) -> None:
    assert here("broker", "trace", "--level", "medium").exit_code == 0
    put(at, "orders", 20)
    trace = tmp_path / "trace.parquet"
    assert here("broker", "trace", trace).exit_code == 0
    study = tmp_path / "orders.yaml"
    result = here("init", study, "--from-trace", trace)
    assert result.exit_code == 0, result.output
    assert here("plan", study).exit_code == 0
    (point,) = load_study(study).points("full")
    counts = (tmp_path / "orders-queues.txt").read_text().splitlines()[1:]
    assert (sum(map(int, counts)), point.destinations, point.pace) == (20, 1, "counts in orders-queues.txt")
    assert "already exists" in here("init", study, "--from-trace", trace).stderr
    result = here("init", tmp_path / "other.yaml", "--from-trace", study)
    assert (result.exit_code, "is not an activity trace" in result.stderr.replace("\n", " ")) == (2, True)
