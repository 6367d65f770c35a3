"""Where a broker listens, whom it lets in, and what it leaves behind."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from broker.server.raw_client import Raw, client, in_loop, local
from mqlab.broker.server.startup import running
from mqlab.broker.settings import SettingError, Settings
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.files.lock import FolderInUseError
from mqlab.broker.store.recovery.recovery import DamagedJournalError
from mqlab.client.errors import ClosedError, MessagingError


@pytest.mark.parametrize("address", ["tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:0", "tcp:example.org:0"])
@in_loop
async def test_other_machines_are_kept_out_unless_that_is_asked_for(address: str) -> None:
    with pytest.raises(SettingError, match="other machines"):
        async with running(Settings(listen=(address,))):
            pytest.fail("it listens")


@in_loop
async def test_other_machines_are_let_in_if_that_is_asked_for() -> None:
    async with running(Settings(listen=("tcp:0.0.0.0:0",), open_to_network=True)) as (_, (address,)):
        await Raw.connect(address._replace(host="127.0.0.1"))


@in_loop
async def test_several_addresses_lead_to_one_broker(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with running(Settings(listen=("tcp:127.0.0.1:0", f"unix:{path}"))) as (broker, (tcp, unix)):
        over_tcp, over_unix = await client(tcp), await client(unix)
        producer = await (await over_tcp.session()).producer("queue:q")
        consumer = await (await over_unix.session()).consumer("queue:q")
        await producer.send(b"hello")
        assert (await consumer.receive()).body == b"hello"
        assert len(broker.connections) == 2
    assert not path.exists()


@in_loop
async def test_a_socket_left_by_a_killed_broker_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    async with running(Settings(listen=(f"unix:{path}",))) as (_, (address,)):
        await Raw.connect(address)


@in_loop
async def test_the_socket_of_a_living_broker_is_not_taken_from_it(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    settings = Settings(listen=(f"unix:{path}",))
    async with running(settings) as (_, (address,)):
        with pytest.raises(OSError, match="socket"):
            async with running(settings):
                pytest.fail("two brokers on one socket")
        await Raw.connect(address)


@in_loop
async def test_a_file_that_is_no_socket_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("keep me")
    with pytest.raises(OSError, match="precious"):
        async with running(Settings(listen=(f"unix:{path}",))):
            pytest.fail("it listens on a file")
    assert path.read_text() == "keep me"


@in_loop
async def test_a_port_in_use_is_an_error_and_leaves_the_data_folder_free(tmp_path: Path) -> None:
    async with running(local()) as (_, (address,)):
        with pytest.raises(OSError, match="in use"):
            async with running(Settings(listen=(str(address),), data=tmp_path)):
                pytest.fail("two brokers on one port")
    async with running(local(data=tmp_path)):
        pass


@in_loop
async def test_one_broker_a_data_folder(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)):
        with pytest.raises(FolderInUseError):
            async with running(local(data=tmp_path)):
                pytest.fail("two brokers in one folder")
    async with running(local(data=tmp_path)):
        pass


@in_loop
async def test_a_damaged_journal_is_refused_and_the_folder_is_free_again(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        producer = await (await (await client(address)).session()).producer("queue:q")
        for n in range(3):
            await producer.send(b"%d" % n, persistent=True)
    path = tmp_path / "journal-0000000001"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"mqlabJ", b"MQLABJ"))
    for _ in range(2):
        with pytest.raises(DamagedJournalError, match=path.name):
            async with running(local(data=tmp_path)):
                pytest.fail("it goes on with damage")
    path.write_bytes(whole)
    async with running(local(data=tmp_path)) as (broker, _):
        assert broker.core.destinations.queues["q"].messages == 3


@in_loop
async def test_an_end_of_the_journal_that_cannot_be_read_is_not_called_unconfirmed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing tells confirmed records that the disk has lost from those that a killed broker did not write."""
    async with running(local(data=tmp_path / "data")) as (_, (address,)):
        producer = await (await (await client(address)).session()).producer("queue:q")
        for body in (b"the first", b"the other"):
            await producer.send(body, persistent=True)
        killed = Path(shutil.copytree(tmp_path / "data", tmp_path / "killed"))
    path = killed / "journal-0000000001"
    path.write_bytes(path.read_bytes().replace(b"the other", b"THE OTHER"))
    async with running(local(data=killed)) as (broker, _):
        assert broker.core.destinations.queues["q"].messages == 1
    (line,) = [line for line in caplog.messages if "cannot be read" in line]
    assert "No record proves that they had been confirmed" in line
    assert "if the disk has lost them instead, messages after record" in line


class BrokenDisk(Files):
    broken = False

    def sync(self, file: int) -> None:
        if BrokenDisk.broken:
            raise OSError(5, "Input/output error")
        super().sync(file)


@in_loop
async def test_when_the_disk_fails_nobody_is_confirmed_and_everybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqlab.broker.server.broker.Files", BrokenDisk)
    monkeypatch.setattr(BrokenDisk, "broken", False)
    async with running(local(data=tmp_path)) as (broker, (address,)):
        session = await (await client(address)).session()
        producer = await session.producer("queue:q")
        await producer.send(b"safe", persistent=True)
        waiting = asyncio.ensure_future((await session.consumer("queue:other")).receive())
        BrokenDisk.broken = True
        with pytest.raises(ClosedError):
            await producer.send(b"not safe", persistent=True)
        with pytest.raises(ClosedError):
            await waiting
        assert "Input/output" in str(await broker.failure)
        BrokenDisk.broken = False
    async with running(local(data=tmp_path)) as (broker, _):
        assert broker.core.destinations.queues["q"].messages >= 1


def broker_process(*options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "mqlab", "broker", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_says_where_it_listens_and_stops_in_good_order(tmp_path: Path, number: int) -> None:
    process = broker_process("--data", str(tmp_path / "data"), "--listen", "tcp:127.0.0.1:0")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("listening on tcp:127.0.0.1:")
    process.send_signal(number)
    _, words = process.communicate(timeout=240)
    assert process.returncode == 0, words
    assert "Traceback" not in words


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--listen", "tcp:0.0.0.0:0"], 2, "other machines"),
        (["--listen", "nowhere"], 2, "not an address"),
        (["--sync", "maybe"], 2, "none of on, off"),
        (["--queue-limit", "0"], 2, "queue_limit"),
        (["--listen", "unix:/no/such/folder/socket"], 7, "No such file"),
    ],
)
def test_the_command_refuses_what_it_cannot_do_in_one_sentence(options: list[str], code: int, word: str) -> None:
    process = broker_process(*options)
    _, words = process.communicate(timeout=240)
    assert (process.returncode, word in words) == (code, True), words
    assert "Traceback" not in words


def test_the_command_refuses_a_folder_in_use(tmp_path: Path) -> None:
    first = broker_process("--data", str(tmp_path), "--listen", "tcp:127.0.0.1:0")
    try:
        assert first.stdout is not None
        first.stdout.readline()
        second = broker_process("--data", str(tmp_path), "--listen", "tcp:127.0.0.1:0")
        _, words = second.communicate(timeout=240)
        assert second.returncode == 7
        assert "another broker" in words
    finally:
        first.terminate()
        first.communicate(timeout=240)


@in_loop
async def test_closing_a_broker_tells_its_clients() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        consumer = await session.consumer("queue:q")
    with pytest.raises(ClosedError):
        await consumer.receive()
    with pytest.raises(MessagingError):
        await connection.session()
    with pytest.raises(OSError, match=r"refused|Connect"):
        await client(address)


def test_the_data_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    @in_loop
    async def start() -> None:
        async with running(local(data=tmp_path / "data")):
            pass

    before = os.umask(0)
    try:
        start()
    finally:
        os.umask(before)
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
