"""Runs one command, and sees to it that nothing of it outlives the lab. Started as a script: only the standard library.

    keeper.py GRACE LOG COMMAND...

It ends the command and every descendant of it, also those that have made themselves daemons, when its stdin closes (the
lab wants it so, or is gone, by whatever cause), when it gets SIGTERM, or when the command ends by itself. First they
are asked to (SIGTERM); after GRACE seconds they are made to. Its stdout says `started PID`, and how the command ended.
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
# Between two looks at who is left.
_LOOK_SECONDS = 0.02


def main(grace: float, log: str, command: list[str]) -> None:
    # Its own end would leave the rest without a keeper: only what is meant for it counts.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    woken = _wake_up_on(signal.SIGCHLD, signal.SIGTERM)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    child = _started(command, log)
    _say(f"started {child}")
    how = _wait(child, woken)
    _end_all(grace)
    if how:
        _say(how)


def _wake_up_on(*signals: int) -> int:
    """The end of a pipe where a byte arrives for each of these signals."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return reading


def _started(command: list[str], log: str) -> int:
    child = os.fork()
    if child:
        return child
    try:
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(written, 1)
        os.dup2(written, 2)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(_CANNOT_RUN)


def _wait(child: int, woken: int) -> str:
    """Until the command ends, and how; "" if it is to be ended."""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready and not os.read(0, 1024):
            return ""
        # One byte for each signal, and its number is the byte.
        if woken in ready and signal.SIGTERM in os.read(woken, 1024):
            return ""
        for pid, status in _reaped():
            if pid == child:
                return _words(status)


def _reaped() -> list[tuple[int, int]]:
    found = []
    with suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    return found


def _end_all(grace: float) -> None:
    _signal_all(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while not _alone():
        # Also those that were born meanwhile, and those that are stopped.
        if time.monotonic() > deadline:
            _signal_all(signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _alone() -> bool:
    """Who has no child has no descendant either, since those without a parent become its children."""
    _reaped()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _signal_all(number: int) -> None:
    for pid in _descendants():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                # The name of the program, which may hold anything, is in brackets.
                parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(folder.name))
    found, look_at = [], [os.getpid()]
    while look_at:
        below = children.get(look_at.pop(), [])
        found += below
        look_at += below
    return found


def _words(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"it was killed by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"


def _say(line: str) -> None:
    # Nobody may be listening any more.
    with suppress(OSError):
        os.write(1, f"{line}\n".encode())


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2], sys.argv[3:])
