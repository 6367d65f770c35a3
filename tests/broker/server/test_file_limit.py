"""A broker process with few descriptors: who is there is served, who comes later waits, and nothing breaks."""

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from mqlab.client import aio
from mqlab.client.errors import MessagingError, RefusedError

from .raw_client import in_loop

# Python, uvloop, the lock, the journal, the socket that listens: about 20 of them are in use before anybody comes.
DESCRIPTORS = 40
WAITING = "cannot accept connections"


def _few() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


@asynccontextmanager
async def small_broker(folder: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    address = f"unix:{folder / 'socket'}"
    options = ("--data", folder / "data", "--listen", address, "--segment-size", "65536")
    with (folder / "words").open("w") as words:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mqlab", "broker", *map(str, options), stdout=subprocess.PIPE, stderr=words,
            preexec_fn=_few,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        assert (await process.stdout.readline()).startswith(b"listening on")
        yield address, process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def as_many_as_come_in(address: str, log: Path) -> list[aio.Connection]:
    """Until the broker says that no more can."""
    connections: list[aio.Connection] = []
    while len(connections) < 2 * DESCRIPTORS:
        opening = asyncio.ensure_future(aio.connect(address))
        while not opening.done() and WAITING not in log.read_text():
            await asyncio.sleep(0.01)
        if WAITING in log.read_text():
            opening.cancel()
            with suppress(asyncio.CancelledError, MessagingError, OSError):
                connections.append(await opening)
            break
        connections.append(await opening)
    return connections


async def until_refused(producer: aio.Producer) -> tuple[int, str]:
    """How many messages were taken, and why the next was not."""
    for number in range(300):
        try:
            await producer.send(b"%04d" % number + b"." * 1000, persistent=True)
        except RefusedError as error:
            return number, str(error)
    raise AssertionError("several files of journal, and no descriptor was missed")


async def once_there_is_room(producer: aio.Producer) -> None:
    """It tries again by itself."""
    async with asyncio.timeout(240):
        while True:
            try:
                await producer.send(b"at last", persistent=True)
            except RefusedError:
                await asyncio.sleep(0.05)
            else:
                return


@in_loop
async def test_a_broker_without_descriptors_serves_those_it_has(tmp_path: Path) -> None:
    async with small_broker(tmp_path) as (address, process):
        first = await aio.connect(address)
        session = await first.session()
        producer = await session.producer("queue:q")
        consumer = await session.consumer("queue:q")
        others = await as_many_as_come_in(address, tmp_path / "words")
        assert 5 < len(others) < DESCRIPTORS
        # A new file of the journal needs a descriptor, and there is none: persistent sends are refused with the reason,
        # all others go on, and nothing that was taken is lost.
        sent, why = await until_refused(producer)
        assert why == "the broker cannot write persistent messages now: Too many open files"
        await producer.send(b"not persistent")
        for number in range(sent):
            assert (await asyncio.wait_for(consumer.receive(), 240)).body[:4] == b"%04d" % number
        assert (await asyncio.wait_for(consumer.receive(), 240)).body == b"not persistent"
        for connection in others:
            await connection.close()
        await once_there_is_room(producer)
        late = await asyncio.wait_for(aio.connect(address), 240)
        assert (await late.status())["disk_full"] == ""
        await late.close()
        await first.close()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    said = (tmp_path / "words").read_text()
    assert WAITING in said
    assert "Too many open files" in said
    assert "Traceback" not in said
