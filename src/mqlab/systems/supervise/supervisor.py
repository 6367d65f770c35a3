"""The supervisor: a script that runs one command and ends all its processes. It uses only the standard library.

    supervisor.py GRACE_SECONDS LOG COMMAND...

It ends the command and all its descendants, including daemons, when its stdin closes (the lab stops the system or has
itself ended), when it gets SIGTERM, or when the command ends. It sends SIGTERM first, and SIGKILL after GRACE_SECONDS.
It prints `started PID`, and how the command ended.
"""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_CANNOT_RUN = 127
_POLL_SECONDS = 0.02


def main(grace_seconds: float, log: str, command: list[str]) -> None:
    # Signals to the process group must not end the supervisor: the processes would outlive it.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    wakeup_fd = _wake_up_on(signal.SIGCHLD, signal.SIGTERM)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    child = _start(command, log)
    _print(f"started {child}")
    ending = _wait(child, wakeup_fd)
    _end_all(grace_seconds)
    if ending:
        _print(ending)


def _wake_up_on(*signals: int) -> int:
    """A file descriptor from which the number of each of these signals can be read, as a byte."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return reading


def _start(command: list[str], log: str) -> int:
    child = os.fork()
    if child:
        return child
    try:
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(_CANNOT_RUN)


def _wait(child: int, wakeup_fd: int) -> str:
    """Returns how the command ended; "" if the supervisor must end it."""
    while True:
        ready, _, _ = select.select([0, wakeup_fd], [], [])
        if 0 in ready and not os.read(0, 1024):
            return ""
        if wakeup_fd in ready and signal.SIGTERM in os.read(wakeup_fd, 1024):
            return ""
        for pid, status in _reap():
            if pid == child:
                return _describe(status)


def _reap() -> list[tuple[int, int]]:
    ended = []
    with suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(child)
    return ended


def _end_all(grace_seconds: float) -> None:
    _signal_all(signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while _has_children():
        # Every time, for processes that were forked meanwhile; SIGKILL also ends suspended ones.
        if time.monotonic() > deadline:
            _signal_all(signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _has_children() -> bool:
    """Whether a descendant is left: those whose parent ends become children of the supervisor."""
    _reap()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _signal_all(number: int) -> None:
    for pid in _descendants():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                # The name of the program is in brackets and may contain any character.
                parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(folder.name))
    descendants, parents = [], [os.getpid()]
    while parents:
        below = children.get(parents.pop(), [])
        descendants += below
        parents += below
    return descendants


def _describe(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"


def _print(line: str) -> None:
    # The lab may have ended.
    with suppress(OSError):
        os.write(1, f"{line}\n".encode())


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2], sys.argv[3:])
