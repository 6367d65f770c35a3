"""The launcher of agents on a Spark cluster."""

import asyncio
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from stat import S_IMODE
from typing import Final
from urllib.parse import urlsplit

from mqlab.cluster.barrier_stage import CONNECTED, STOPPED, StageOrder
from mqlab.cluster.task import ConductorAddress, keep_alive
from mqlab.events.folder import RunFolder
from mqlab.pipeline.session import SparkTarget
from mqlab.runner.agents.channel import MAX_LINE_BYTES, ConnectionChannel, Place
from mqlab.runner.agents.handle import AgentHandle, AgentLostError, BrokenRunError, check_answer
from mqlab.runner.agents.launcher import AgentLauncher, AgentStartError

# Until all agents are connected: Spark starts, and a cluster may have to start executors.
_START_SECONDS: Final = 600.0
_GREETING_SECONDS: Final = 10.0
# For the stage to end once its tasks have.
_STOP_SECONDS: Final = 30.0


class SparkLauncher(AgentLauncher):
    """The agents are the tasks of one barrier stage on the target."""

    def __init__(self, target: SparkTarget) -> None:
        super().__init__()
        self._target = target
        # With the Python of the executors, which a session of this process may change.
        self._environment = dict(os.environ)
        self._stage: asyncio.subprocess.Process | None = None
        self._connected: dict[int, AgentHandle] = {}

    @property
    def master(self) -> str:
        return self._target.master or ""

    async def start(self, count: int, folder: Path) -> None:
        host, token = conductor_host(self._target), secrets.token_hex(32)
        all_connected = asyncio.Event()

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            agent = await _greet(reader, writer, token)
            if agent is None or agent.number in self._connected:
                writer.close()
                return
            self._connected[agent.number] = agent
            if len(self._connected) == count:
                all_connected.set()

        bind_address = self._target.settings.get("spark.driver.bindAddress", host)
        try:
            server = await asyncio.start_server(greet, bind_address, 0, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise AgentStartError(
                f"the agents cannot connect to {bind_address}, which --conf spark.driver.host=HOST can change: "
                f"{error.strerror or error}"
            ) from error
        try:
            port = server.sockets[0].getsockname()[1]
            await self._start_stage(count, ConductorAddress(host, port, token))
            await self._wait_connected(count, all_connected)
        finally:
            server.close()
        self._tell_stage(CONNECTED)
        self.agents[:] = [self._connected[number] for number in range(1, count + 1)]
        await _check_folder(self.agents, RunFolder(folder))

    async def replace(self, lost: list[AgentHandle], folder: Path) -> None:  # noqa: ARG002 - the stage ends with them
        """Spark ends all tasks of a barrier stage that lost one: start another stage."""
        count = len(self.agents)
        await self.stop()
        await self.start(count, folder)

    async def stop(self) -> None:
        has_begun = bool(self.agents)
        self.agents.clear()
        for agent in self._connected.values():
            await agent.stop()
        self._connected.clear()
        if has_begun:
            self._tell_stage(STOPPED)
        stage, self._stage = self._stage, None
        if stage is None:
            return
        if not has_begun and stage.stdin is not None:
            # Tasks may still be waiting for others: the driver of the stage ends them.
            stage.stdin.close()
        try:
            await asyncio.wait_for(stage.communicate(), _STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                stage.kill()
            await stage.wait()

    async def _start_stage(self, count: int, conductor: ConductorAddress) -> None:
        # In its own session: Ctrl-C in a terminal reaches only the conductor.
        self._stage = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mqlab.cluster.barrier_stage", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            env=self._environment,
        )  # fmt: skip
        assert self._stage.stdin is not None
        settings = {"spark.driver.host": conductor.host, **self._target.settings}
        order = StageOrder(self.master, settings, count, conductor)
        self._stage.stdin.write(f"{order.to_json()}\n".encode())

    def _tell_stage(self, word: str) -> None:
        if self._stage is not None and self._stage.stdin is not None:
            # A stage that has ended reads nothing: asyncio discards what is written to it.
            self._stage.stdin.write(f"{word}\n".encode())

    async def _wait_connected(self, count: int, all_connected: asyncio.Event) -> None:
        """Raises AgentStartError if the stage ends before, or takes too long."""
        assert self._stage is not None
        assert self._stage.stdout is not None
        connecting = asyncio.ensure_future(all_connected.wait())
        output = asyncio.ensure_future(self._stage.stdout.read())
        try:
            await asyncio.wait((connecting, output), timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if connecting.done():
                return
            reason = f"{len(self._connected)} of {count} were there after {_START_SECONDS:g} s"
            if output.done():
                reason = next(iter(output.result().decode(errors="replace").strip().splitlines()[-1:]), "no reason")
            raise AgentStartError(f"the agents cannot start on {self.master}: {reason}")
        finally:
            for waiting in (connecting, output):
                waiting.cancel()
            await asyncio.gather(connecting, output, return_exceptions=True)


def conductor_host(target: SparkTarget) -> str:
    """The address of this machine for the agents: as Spark's own driver, or the one that routes to the master."""
    chosen = target.settings.get("spark.driver.host")
    if chosen:
        return chosen
    # A cluster with standby masters has several addresses.
    parts = urlsplit((target.master or "").partition(",")[0])
    if parts.scheme != "spark" or not parts.hostname:
        return "127.0.0.1" if (target.master or "").startswith("local") else socket.gethostname()
    try:
        family, kind, *_, remote = socket.getaddrinfo(parts.hostname, parts.port or 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as datagrams:
            # Connecting a datagram socket only selects the route: it sends nothing.
            datagrams.connect(remote)
            return str(datagrams.getsockname()[0])
    except OSError as error:
        raise AgentStartError(f"{target.master} cannot be reached: {error.strerror or error}") from error


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> AgentHandle | None:
    """The agent that connected; None if it is not one of ours."""
    try:
        async with asyncio.timeout(_GREETING_SECONDS):
            greeting = json.loads(await reader.readline())
        if not compare_digest(str(greeting["token"]), token):
            return None
        channel = ConnectionChannel(reader, writer, greeting["host"], greeting["pid"], Place(*greeting["place"]))
        keep_alive(writer.get_extra_info("socket"))
        return AgentHandle(greeting["agent"], channel)
    except (TimeoutError, OSError, ValueError, TypeError, KeyError):
        return None


async def _check_folder(agents: list[AgentHandle], folder: RunFolder) -> None:
    """Let every agent write a file to the folder of the events. Raises AgentStartError if one cannot."""
    probes = Path(tempfile.mkdtemp(prefix=".agents-", dir=folder.events.absolute()))
    # The agents may run as another user, who can write to the folder by its group or its mode.
    probes.chmod(S_IMODE(folder.events.stat().st_mode))
    try:
        for agent in agents:
            try:
                check_answer(await agent.ask("check_folder", file=str(probes / str(agent.number))))
            except (BrokenRunError, AgentLostError) as error:
                raise AgentStartError(
                    f"{agent.name} cannot write to the run folder, which must be at the same path on every machine: "
                    f"{error}"
                ) from error
            if not (probes / str(agent.number)).exists():
                raise AgentStartError(f"{agent.name} wrote to {probes}, and the file is not in this run folder")
    finally:
        shutil.rmtree(probes, ignore_errors=True)
