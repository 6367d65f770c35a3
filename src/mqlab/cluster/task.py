"""A task of the barrier stage: an agent that connects to the conductor."""

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import uvloop
from pyspark import BarrierTaskContext

from mqlab.runner.agents.channel import MAX_LINE_BYTES, Place
from mqlab.runner.agents.process import CommandProtocol, prepare_process, serve
from mqlab.runner.machine import raise_file_limit

# A machine that vanishes closes no connection: after so many seconds without a sign of life, the connection is lost.
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 5, 2, 3
_LOST_MILLISECONDS: Final = 1000 * (_IDLE_SECONDS + _PROBE_SECONDS * _PROBES)


@dataclass(frozen=True)
class ConductorAddress:
    """Where the agents find the conductor, and the token by which it knows them."""

    host: str
    port: int
    token: str


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel notice a lost peer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, _IDLE_SECONDS),
        (socket.TCP_KEEPINTVL, _PROBE_SECONDS),
        (socket.TCP_KEEPCNT, _PROBES),
        (socket.TCP_USER_TIMEOUT, _LOST_MILLISECONDS),
        (socket.TCP_NODELAY, 1),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def play_agent(_: Iterator[int], conductor: ConductorAddress) -> Iterator[int]:
    """Be an agent until the conductor closes the connection. It begins when all tasks of the stage have started."""
    context = BarrierTaskContext.get()
    context.barrier()
    prepare_process()
    raise_file_limit()
    uvloop.run(serve_conductor(conductor, context.partitionId() + 1))
    return iter(())


async def serve_conductor(conductor: ConductorAddress, number: int) -> None:
    """Connect, and execute the conductor's commands until it closes the connection."""
    serving = asyncio.current_task()
    assert serving is not None
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    connection = socket.create_connection((conductor.host, conductor.port))
    keep_alive(connection)
    transport, _ = await asyncio.get_running_loop().create_connection(
        lambda: CommandProtocol(reader, serving.cancel), sock=connection
    )
    greeting = {
        "token": conductor.token,
        "agent": number,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "place": Place.here(),
    }
    transport.write((json.dumps(greeting) + "\n").encode())
    with suppress(asyncio.CancelledError):
        await serve(reader, transport.write)
    transport.close()
