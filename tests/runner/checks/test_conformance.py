"""What the check of conformance says of a system that conforms, and of those that do not."""

from pathlib import Path

import pytest
import uvloop

from mqlab.drivers import DRIVERS, DriverConnection, Receiver, ReceiverOptions
from mqlab.drivers.api import ReceivedBatch
from mqlab.drivers.native.driver import NativeConnection, NativeDriver
from mqlab.drivers.native.links import NativeReceiver
from mqlab.runner.checks.conformance import check_conformance
from mqlab.runner.checks.feature_checks import CHECKS
from mqlab.study import FEATURES
from mqlab.systems.embedded.system import Embedded
from mqlab.wire.native.bodies import Bodies


def test_the_embedded_broker_conforms(tmp_path: Path) -> None:
    told: list[str] = []
    found = uvloop.run(check_conformance(Embedded({}), tmp_path / "data", lambda one: told.append(one.feature)))
    assert [one for one in found if one.result != "works"] == []
    assert [one.feature for one in found] == told == [feature for feature in FEATURES if feature in CHECKS]


class Losing(NativeReceiver):
    async def receive(self) -> ReceivedBatch:
        arrival = await super().receive()
        bodies = arrival.bodies
        return arrival._replace(bodies=Bodies(bodies.data, bodies.offsets[:-1])) if len(bodies) > 1 else arrival


class LosingConnection(NativeConnection):
    async def receiver(self, destination: str, how: ReceiverOptions) -> Receiver:
        receiver = await super().receiver(destination, how)
        assert isinstance(receiver, NativeReceiver)
        return Losing(receiver._session, receiver._consumer)


class LosingDriver(NativeDriver):
    lacks = {"selectors": "it is not made for that"}  # noqa: RUF012 - never changed

    async def connect(self, application: str = "") -> DriverConnection:
        connection = await super().connect(application)
        assert isinstance(connection, NativeConnection)
        return LosingConnection(connection._connection)


class BrokenDriver(NativeDriver):
    async def connect(self, application: str = "") -> DriverConnection:
        raise ZeroDivisionError(f"{application} by nothing")


def test_a_mistake_of_its_author_is_told_with_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRIVERS, "broken", BrokenDriver)
    monkeypatch.setattr(Embedded, "drivers", ("broken",))
    found = uvloop.run(check_conformance(Embedded({}), tmp_path / "data"))
    assert {one.result for one in found} == {"fails"}
    assert found[0].why.startswith("ZeroDivisionError: Conformance by nothing (test_conformance.py, line ")


def test_one_that_loses_messages_fails_and_what_it_lacks_is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DRIVERS, "losing", LosingDriver)
    monkeypatch.setattr("mqlab.runner.checks.feature_checks._TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(Embedded, "drivers", ("losing",))
    found = {one.feature: one for one in uvloop.run(check_conformance(Embedded({}), tmp_path / "data"))}
    assert found["queues"].result == "fails"
    assert "came" in found["queues"].why or "got" in found["queues"].why
    assert (found["selectors"].result, found["selectors"].why) == ("lacks", "it is not made for that")
