"""The JMS driver with the brokers that have other drivers too, and what only it could do wrong, with a quick one."""

import asyncio
import re
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import jpype
import numpy as np
import psutil
import pytest
import uvloop

from drivers.answers import Answers
from mqlab.drivers import DRIVERS, DriverError, ReceiverOptions
from mqlab.drivers.jms.jvm import ProviderClasses
from mqlab.runner.agents.bodies import BodyMaker, message_ranges
from mqlab.runner.checks.feature_checks import NumberedProducer, expect
from mqlab.systems import system
from mqlab.systems.program import free_port

from .hanging_system import check_hanging
from .real_system import CHECKS, Real, real

artemis = real("artemis:driver=jms")
activemq = real("activemq:driver=jms")
artemis_by_qpid_jms = real("artemis:driver=jms,client=qpid-jms")
activemq_by_qpid_jms = real("activemq:driver=jms,client=qpid-jms")
hornetq = real("hornetq")
on_hornetq = pytest.mark.needs_system("hornetq")


@pytest.mark.needs_system("artemis:driver=jms")
@pytest.mark.parametrize("feature", CHECKS)
def test_it_works_with_artemis(artemis: Real, feature: str) -> None:
    artemis.check(feature)


@pytest.mark.needs_system("activemq:driver=jms")
@pytest.mark.parametrize("feature", CHECKS)
def test_it_works_with_activemq(activemq: Real, feature: str) -> None:
    activemq.check(feature)


@pytest.mark.needs_system("artemis:driver=jms,client=qpid-jms")
@pytest.mark.parametrize("feature", CHECKS)
def test_qpid_jms_works_with_artemis(artemis_by_qpid_jms: Real, feature: str) -> None:
    artemis_by_qpid_jms.check(feature)


@pytest.mark.needs_system("activemq:driver=jms,client=qpid-jms")
@pytest.mark.parametrize("feature", CHECKS)
def test_qpid_jms_works_with_activemq(activemq_by_qpid_jms: Real, feature: str) -> None:
    activemq_by_qpid_jms.check(feature)


@on_hornetq
def test_one_that_hangs_is_not_waited_for_without_an_end(hornetq: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hanging(hornetq, monkeypatch)


@on_hornetq
def test_what_was_not_asked_for_is_not_acknowledged(hornetq: Real) -> None:
    async def play() -> None:
        tested, producer = hornetq.tested, NumberedProducer()
        name = tested.new_destination("queue")
        async with tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(1))
            await producer.send(connection, name, 10)
            assert len((await receiver.receive()).bodies) == 1
        async with tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(100))
            first = message_ranges((await receiver.receive()).bodies)[0]
            # The second was on its way to a listener that never took it.
            assert first[1] == 1

    hornetq.run(play())


@on_hornetq
def test_a_receive_that_was_cancelled_does_not_hold_up_the_commit(hornetq: Real) -> None:
    async def play() -> None:
        tested, producer = hornetq.tested, NumberedProducer()
        name = tested.new_destination("queue")
        async with tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(100, "transacted"))
            await producer.send(connection, name, 5)
            await expect(receiver, [(producer.number, 0, 5, 5 * producer.size)])
            await _cancelled(receiver.receive())
            await receiver.commit()
            await producer.send(connection, name, 5)
            await expect(receiver, [(producer.number, 5, 5, 5 * producer.size)])
            await receiver.commit()

    hornetq.run(play())


@on_hornetq
def test_messages_that_nobody_took_are_not_committed(hornetq: Real) -> None:
    async def play() -> None:
        tested, producer = hornetq.tested, NumberedProducer()
        name = tested.new_destination("queue")
        async with tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(100, "transacted"))
            waiting = asyncio.ensure_future(receiver.receive())
            await asyncio.sleep(0)
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            # They come before the look that the cancelled receive still takes is over, or after it on a slow machine.
            await producer.send(connection, name, 5)
            with suppress(DriverError):
                await receiver.commit()
        async with tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(100))
            await expect(receiver, [(producer.number, 0, 5, 5 * producer.size)])

    hornetq.run(play())


@on_hornetq
@pytest.mark.parametrize("replies", ["standing", "each"])
def test_requesters_find_their_replies_either_way(hornetq: Real, replies: str) -> None:
    options = {**hornetq.running.options, "replies": replies}

    async def play() -> list[bytes]:
        tested = hornetq.tested
        requests, shared = tested.new_destination("queue"), tested.new_destination("queue")
        connection = await DRIVERS["jms"](hornetq.running.address, options).connect()
        responder = await connection.responder(requests, prefetch=2, persistent=False)
        requesters = [await connection.requester(requests, shared, persistent=False) for _ in range(2)]
        asked = [
            asyncio.ensure_future(requester.request(b"%d" % number, f"{number}-0"))
            for number, requester in enumerate(requesters)
        ]
        responder.start(Answers(lambda body: body * 2))
        found = [(await one).body for one in asked]
        await responder.stop()
        await connection.close()
        return found

    assert hornetq.run(play()) == [b"00", b"11"]


@on_hornetq
def test_a_property_that_jms_has_not_is_refused(hornetq: Real) -> None:
    async def play() -> None:
        async with hornetq.tested.connected() as connection:
            sender = await connection.sender(
                hornetq.tested.new_destination("queue"), persistent=False, transacted=False
            )
            when = {"when": np.zeros(1, dtype="datetime64[s]")}
            with pytest.raises(DriverError, match="property 'when' of type datetime64"):
                await sender.send(BodyMaker(1, 12, 1).make(0, 1), wait=False, properties=when)

    hornetq.run(play())


@on_hornetq
def test_nothing_is_left_of_a_connection(hornetq: Real) -> None:
    import jpype

    async def play() -> None:
        tested = hornetq.tested
        async with tested.connected() as connection:
            name = tested.new_destination("queue")
            for how in ("auto", "client", "transacted"):
                await connection.receiver(name, ReceiverOptions(10, how))
            await connection.sender(name, persistent=False, transacted=False)

    files = psutil.Process().num_fds()
    hornetq.run(play())
    threads = jpype.java.lang.Thread.getAllStackTraces().keySet()
    assert [str(one.getName()) for one in threads if one.isAlive() and "mqlab" in str(one.getName())] == []
    assert psutil.Process().num_fds() <= files


@on_hornetq
def test_nobody_there_is_said_with_the_address(hornetq: Real) -> None:
    port = free_port()
    with pytest.raises(DriverError, match=f"jms tcp:127.0.0.1:{port}: "):
        hornetq.run(DRIVERS["jms"](f"tcp:127.0.0.1:{port}", hornetq.running.options).connect())


@on_hornetq
def test_a_broker_that_dies_ends_what_waits_for_it(tmp_path: Path) -> None:
    async def play() -> None:
        running = await system("hornetq").start(tmp_path / "data")
        connection = await DRIVERS["jms"](running.address, running.options).connect()
        receivers = [await connection.receiver("queue:q", ReceiverOptions(10, how)) for how in ("auto", "transacted")]
        waiting = [asyncio.ensure_future(receiver.receive()) for receiver in receivers]
        await running.stop()
        for one in waiting:
            with pytest.raises(DriverError, match=re.escape(running.address)):
                await asyncio.wait_for(one, 240)
        with suppress(DriverError):
            await connection.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())


@on_hornetq
def test_jars_without_jms_are_told_so(hornetq: Real) -> None:
    [jar, *_] = Path(hornetq.running.options["jars"]).glob("netty-*.jar")
    with pytest.raises(DriverError, match=r"none of them has JMS itself"):
        hornetq.run(DRIVERS["jms"](hornetq.running.address, {"provider": "hornetq", "jars": str(jar)}).connect())


@on_hornetq
def test_a_java_without_a_compiler_is_told_so(hornetq: Real, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from mqlab.drivers.jms import jvm

    monkeypatch.setenv("MQLAB_CACHE", str(tmp_path))
    none = SimpleNamespace(getSystemJavaCompiler=lambda: None)
    fake = SimpleNamespace(java=jpype.java, javax=SimpleNamespace(tools=SimpleNamespace(ToolProvider=none)))
    monkeypatch.setattr(jvm, "jpype", fake)
    jars = tuple(Path(hornetq.running.options["jars"]).glob("*.jar"))
    with pytest.raises(DriverError, match="has no compiler: set JAVA_HOME to a JDK"):
        jvm._compiled(jars, "javax.jms", jms_2=True)
    assert list((tmp_path / "jms").iterdir()) == []


@on_hornetq
def test_what_is_done_as_its_waiter_is_cancelled_is_kept(hornetq: Real) -> None:
    from mqlab.drivers.jms.calls import JavaCalls

    completions = SimpleNamespace(
        take=lambda: np.array([-1]), error=lambda _: None, result=lambda _: "messages", close=lambda: None
    )

    async def play() -> object:
        calls = JavaCalls(cast(ProviderClasses, SimpleNamespace(completion_queue=lambda _: completions)), "here")
        cancelled = calls.submit(lambda _: None)
        cancelled.cancel()
        calls._handle_completions()
        try:
            return await calls.reattach(cancelled)
        finally:
            calls.close()

    assert hornetq.run(play()) == "messages"


async def _cancelled(work: Coroutine[object, None, object]) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
