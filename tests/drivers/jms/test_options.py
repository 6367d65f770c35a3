from pathlib import Path

import pytest

from mqlab.drivers import DriverError
from mqlab.drivers.jms.options import complete, destination, jars

ADDRESS = "tcp:broker.example:1414"
FACTORY = {"factory": "com.example.Factory", "jars": "/jars"}


def test_a_provider_that_is_known_needs_only_its_jars() -> None:
    options = complete(ADDRESS, {"provider": "ibmmq", "jars": "/jars", "set.queueManager": "QM1"})
    assert options["factory"] == "com.ibm.mq.jms.MQConnectionFactory"
    assert (options["set.hostName"], options["set.port"]) == ("broker.example", "1414")
    assert options["set.queueManager"] == "QM1"


def test_what_is_said_goes_before_what_is_known() -> None:
    options = complete(ADDRESS, {"provider": "artemis", "jars": "/jars", "url": "tcp://{host}:{port}?a=b"})
    assert options["url"] == "tcp://broker.example:1414?a=b"


def test_any_provider_can_be_named_by_its_factory() -> None:
    options = complete(ADDRESS, FACTORY)
    assert (options["url"], options["confirm"], options["replies"]) == (
        "tcp://broker.example:1414", "send", "standing",
    )  # fmt: skip


def test_a_directory_is_told_where_it_is() -> None:
    options = complete(ADDRESS, {"provider": "swiftmq", "jars": "/jars"})
    assert options["jndi.java.naming.provider.url"] == "smqp://broker.example:1414/timeout=10000"


@pytest.mark.parametrize(("options", "words"), [
    ({**FACTORY, "colour": "red"}, "no option 'colour'"),
    ({"provider": "rabbit", "jars": "/jars"}, "'rabbit' is none of artemis"),
    ({**FACTORY, "confirm": "maybe"}, "confirm: 'maybe' is none of send, listener, commit"),
    ({"jars": "/jars"}, "needs the option provider, or factory"),
    ({"factory": "com.example.Factory"}, "needs the option jars"),
])  # fmt: skip
def test_what_cannot_be_is_said_in_a_sentence(options: dict[str, str], words: str) -> None:
    with pytest.raises(DriverError, match=words):
        complete(ADDRESS, options)


@pytest.mark.parametrize("address", ["tls:broker.example:1", "unix:/tmp/it", "broker.example", "tcp:broker.example"])
def test_it_needs_a_host_and_a_port(address: str) -> None:
    with pytest.raises(DriverError, match="tcp:"):
        complete(address, FACTORY)


@pytest.mark.parametrize(("template", "own"), [
    ("{name}", "run-3-queue-12"), ("{identifier}", "run_3_queue_12"), ("LAB.{number}", "LAB.12"),
])  # fmt: skip
def test_destinations_are_called_as_the_provider_can(template: str, own: str) -> None:
    assert destination("queue:run-3-queue-12", {"queue": template, "topic": "no"}) == (False, own)
    assert destination("topic:run-3-queue-12", {"queue": "no", "topic": template}) == (True, own)


def test_what_is_neither_queue_nor_topic_is_refused() -> None:
    with pytest.raises(DriverError, match="not a destination"):
        destination("heap:run-3", {"queue": "{name}", "topic": "{name}"})


def test_jars_are_folders_files_and_patterns(tmp_path: Path) -> None:
    for name in ("a.jar", "b.jar", "c-1.jar", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "d.jar").touch()
    found = jars(f"{tmp_path}/c-*.jar:{tmp_path}/more:{tmp_path}/a.jar:{tmp_path}")
    assert [path.name for path in found] == ["c-1.jar", "d.jar", "a.jar", "b.jar"]


def test_jars_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match=r"there is no .*missing-\*\.jar"):
        jars(f"{tmp_path}/missing-*.jar")
