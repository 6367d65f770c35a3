"""The runner's handle on the line of a run: the process of a proxy, to which the agents connect."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from mqlab.runner.agents.handle import BrokenRunError
from mqlab.runner.faults.proxy import LineState
from mqlab.wire.address import Address, BadAddressError

_ANSWER_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 5.0


class ControlledLine:
    """`address`: where the agents connect."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.address = address
        self._process = process

    async def change(self, state: LineState) -> None:
        """Returns when the state holds. Raises BrokenRunError."""
        assert self._process.stdin is not None
        with suppress(OSError, RuntimeError):  # uvloop raises RuntimeError for a closed pipe
            self._process.stdin.write(f"{state.to_json()}\n".encode())
            await self._process.stdin.drain()
        if await _answer(self._process) != "ok":
            raise BrokenRunError("the proxy between the agents and the system has ended")


@asynccontextmanager
async def open_line(address: str) -> AsyncIterator[ControlledLine]:
    """A line to the address of a system, until the end of the context. Raises BrokenRunError."""
    try:
        target = Address.parse(address)
    except BadAddressError as error:
        raise BrokenRunError(f"no faults of the line: {error}") from error
    if not target.host or target.tls:
        raise BrokenRunError(f"no faults of the line: {address} is not a tcp: address")
    # In its own session: Ctrl-C in a terminal reaches only the conductor.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mqlab.runner.faults.proxy", target.host, str(target.port),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        port = (await _answer(process)).removeprefix("listening on ")
        if not port.isdigit():
            raise BrokenRunError("the proxy between the agents and the system did not start")
        yield ControlledLine(process, f"tcp:127.0.0.1:{port}")
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(process.wait()), _STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _answer(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    try:
        return (await asyncio.wait_for(process.stdout.readline(), _ANSWER_SECONDS)).decode().strip()
    except TimeoutError:
        return ""
