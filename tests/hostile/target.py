"""The broker under attack: a process of its own with every kind of listener, and what must be true of it at its end."""

import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import psutil
import trustme

from mqlab.broker.security import passwords
from mqlab.broker.security.rights import RIGHTS, Rights
from mqlab.broker.security.users import Users
from mqlab.client import aio

from .payloads import MOST, Login

# The owner may do everything; the guest may log in, and use the queues that begin with guest.
OWNER, OWNERS_PASSWORD = "owner", "the owner's own password"
GUEST, GUESTS_PASSWORD = "guest", "the guest's own password"
# However slow the machine is: by then a broker that hangs has been found out.
PATIENCE_SECONDS = 240.0


class Target:
    """Started by `start`; ended by `end`, or in any case by `kill`."""

    def __init__(self, folder: Path, *options: str, users: bool = False, traced: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.users = users
        self.log_path = folder / "log"
        self._options = [*options, f"--max-message-size={MOST}", f"--data={folder / 'data'}"]
        self._options.append(f"--metrics=127.0.0.1:{_free_port()}")
        self.metrics_port = int(self._options[-1].rpartition(":")[2])
        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        issued = authority.issue_cert("localhost", "127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "pem"))
        self._options += [f"--tls-certificate={folder / 'pem'}", f"--tls-key={folder / 'pem'}"]
        if users:
            _write_users(folder / "users")
            self._options.append(f"--users={folder / 'users'}")
        if traced:
            self._options += ["--trace=high", "--monitoring=high", f"--api-trace={folder / 'api-trace'}"]
        self._process: subprocess.Popen[str] | None = None
        self.port = self.tls_port = 0

    def start(self) -> "Target":
        listen = ["--listen=tcp:127.0.0.1:0", "--listen=tls:127.0.0.1:0"]
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mqlab", "broker", *listen, *self._options],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        lines = [self._process.stdout.readline() for _ in listen]
        assert all(line.startswith("listening on") for line in lines), self.log_path.read_text()
        self.port, self.tls_port = (int(line.rpartition(":")[2]) for line in lines)
        return self

    @property
    def process(self) -> psutil.Process:
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def cpu_seconds(self) -> float:
        """Processor time of the broker's event loop since its start."""
        assert self._process is not None
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9

    @property
    def address(self) -> str:
        return f"tcp:127.0.0.1:{self.port}"

    @property
    def login(self) -> Login:
        return {"user": OWNER, "password": OWNERS_PASSWORD} if self.users else {}

    @property
    def guest_login(self) -> Login:
        return {"user": GUEST, "password": GUESTS_PASSWORD} if self.users else {}

    def tls_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        context.check_hostname = False
        return context

    def end(self) -> float:
        """SIGTERM. Returns the CPU seconds that the end took. Raises AssertionError if it does not end by itself."""
        assert self._process is not None
        watched, used = self.process, 0.0
        begun = sum(watched.cpu_times()[:2])
        self._process.terminate()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"the broker does not end on SIGTERM:\n{self.log()}"
            try:
                used = sum(watched.cpu_times()[:2]) - begun
            except psutil.Error:
                break
            time.sleep(0.02)
        assert self._process.wait(PATIENCE_SECONDS) == 0, self.log()
        return used

    def kill(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def log(self) -> str:
        """Its end: a hostile client can make it long."""
        return self.log_path.read_text(errors="replace")[-20_000:]

    def tracebacks(self) -> int:
        with self.log_path.open(errors="replace") as lines:
            return sum(line.startswith(("Traceback", "Exception in")) or "Error in" in line[:60] for line in lines)


async def exchange(target: Target, number: int) -> None:
    """A well-behaved client sends, receives, and gets a confirmation for a persistent message."""
    async with await aio.connect(target.address, **target.login) as connection:
        session = await connection.session()
        queue = f"queue:good.{number}"
        producer, consumer = await session.producer(queue), await session.consumer(queue)
        for persistent in (False, True):
            body = b"%d %d" % (number, persistent)
            await producer.send(body, persistent=persistent)
            message = await consumer.receive(PATIENCE_SECONDS)
            assert message.body == body
        await session.close()


def _write_users(path: Path) -> None:
    """Quick hashes: logins are many here, and not what is tested."""
    with patch.object(passwords, "COST", passwords.Cost(10, 8, 1)):
        users, everything = Users.empty(), Rights()
        for right in RIGHTS:
            everything = everything.granted(right, "all")
        users.add(OWNER, OWNERS_PASSWORD, everything)
        own = Rights()
        for right in ("read", "write", "create"):
            own = own.granted(right, "queue:guest.#")
        users.add(GUEST, GUESTS_PASSWORD, own)
        users.write(path)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
