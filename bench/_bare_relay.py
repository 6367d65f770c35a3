"""The bare side of RR1, RR8 and P of `ceiling.py`: three processes that pass frames on and look at nothing.

They are plain Python over blocking sockets, with a thread for each direction of the relay, which is quicker than
uvloop. Each frame has the size of the embedded broker's, and leaves its sender by a call of its own; the relay passes
on what it has read. In P the relay writes each frame to a journal file as the broker's store does, syncs it, sends the
confirmation, and then passes the frame on.

Each process runs this file; its arguments say what it plays. It imports little, so that it is soon up.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

_ROOM = 256 * 1024
_WARM_UP_SECONDS = 0.3
_END_SECONDS = 10.0
_HOST = "127.0.0.1"


def round_trips(requesters: int, request_size: int, reply_size: int, seconds: float) -> float:
    """Round trips a second of requesters that share a connection."""
    return _rate(["relay"], ["respond", request_size, reply_size], requesters, request_size, reply_size, seconds)


def confirmed_sends(folder: Path, send_size: int, confirmation_size: int, seconds: float) -> float:
    """Messages a second of a sender that waits for each; they are stored in `folder`, and passed on to a consumer."""
    relay = ["relay_stored", str(folder), send_size, confirmation_size]
    return _rate(relay, ["consume"], 1, send_size, confirmation_size, seconds)


def _rate(
    relay: list[object], passive: list[object], active: int, out_size: int, in_size: int, seconds: float
) -> float:
    with ExitStack() as stack:
        active_port, passive_port = map(int, _start(stack, *relay).split())
        _start(stack, *passive, passive_port, answers=False)
        return float(_start(stack, "ask", active, out_size, in_size, seconds, active_port))


def _start(stack: ExitStack, *words: object, answers: bool = True) -> str:
    """Start a process, which ends with the stack. Return its first line."""
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(words)], stdout=subprocess.PIPE if answers else None, text=True
    )
    stack.callback(_end, process)
    line = process.stdout.readline() if process.stdout else ""
    if answers and not line:
        raise SystemExit(f"the bare process failed: {words}")
    return line


def _end(process: subprocess.Popen[str]) -> None:
    """It ends by itself when its peer is gone."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    process.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()


# The processes


def ask(active: int, out_size: int, in_size: int, seconds: float, port: int) -> None:
    """Keep so many messages on their way: each answer lets the next one leave. Print the rate of answers."""
    with _connect(port) as sock:
        receive_into, send, clock = sock.recv_into, sock.sendall, time.monotonic
        message, room = bytes(out_size), bytearray(_ROOM)
        for _ in range(active):
            send(message)
        received = receive_into(room)
        begin = clock() + _WARM_UP_SECONDS
        end = begin + seconds
        counted = rest = 0
        while received and (now := clock()) < end:
            answers, rest = divmod(rest + received, in_size)
            for _ in range(answers):
                send(message)
            if now >= begin:
                counted += answers
            received = receive_into(room)
    if not received:
        raise SystemExit("the relay has ended")
    print(counted / seconds)


def respond(in_size: int, out_size: int, port: int) -> None:
    with _connect(port) as sock:
        receive_into, send = sock.recv_into, sock.sendall
        answer, room = bytes(out_size), bytearray(_ROOM)
        rest = 0
        while size := receive_into(room):
            messages, rest = divmod(rest + size, in_size)
            for _ in range(messages):
                send(answer)


def consume(port: int) -> None:
    with _connect(port) as sock:
        room = bytearray(_ROOM)
        while sock.recv_into(room):
            pass


def relay() -> None:
    active, passive = _accept_both()
    thread = threading.Thread(target=_pass_on, args=(passive, active))
    thread.start()
    _pass_on(active, passive)
    thread.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    receive_into, send, room = source.recv_into, target.sendall, memoryview(bytearray(_ROOM))
    with suppress(ConnectionError):
        while size := receive_into(room):
            send(room[:size])
    with suppress(OSError):  # it may be gone
        target.shutdown(socket.SHUT_WR)


def relay_stored(folder: str, in_size: int, confirmation_size: int) -> None:
    # Here, since only this process needs them.
    from mqlab.broker.settings import Settings
    from mqlab.broker.store.files.disk_space import FileSizes
    from mqlab.broker.store.files.layer import Files
    from mqlab.broker.store.journal_file import JournalFile

    reserves = FileSizes(Settings().segment_size, preallocate=Settings().preallocate).reserves
    file = JournalFile.begin(Path(folder), Files(), 1, b"", reserves)
    active, passive = _accept_both()
    confirmation = bytes(confirmation_size)
    with suppress(ConnectionError):
        while message := active.recv(in_size, socket.MSG_WAITALL):
            if file.room < in_size:
                file.close(in_order=True)
                file = JournalFile.begin(Path(folder), Files(), file.number + 1, b"", reserves)
            file.write(message)
            file.sync()
            active.sendall(confirmation)
            passive.sendall(message)
    file.close(in_order=True)


def _accept_both() -> tuple[socket.socket, socket.socket]:
    """Print the ports for the active and the passive side, and return their connections."""
    with socket.create_server((_HOST, 0)) as actives, socket.create_server((_HOST, 0)) as passives:
        print(actives.getsockname()[1], passives.getsockname()[1], flush=True)
        return _at_once(actives.accept()[0]), _at_once(passives.accept()[0])


def _connect(port: int) -> socket.socket:
    return _at_once(socket.create_connection((_HOST, port)))


def _at_once(sock: socket.socket) -> socket.socket:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def main() -> None:
    played: dict[str, Callable[..., None]] = {
        "ask": ask, "respond": respond, "consume": consume, "relay": relay, "relay_stored": relay_stored,
    }  # fmt: skip
    name, *words = json.loads(sys.argv[1])
    with suppress(ConnectionError):  # the process that asks leaves when it has counted enough
        played[name](*words)


if __name__ == "__main__":
    main()
