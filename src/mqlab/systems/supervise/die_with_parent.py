"""A script that executes a command which gets SIGTERM when its parent ends. It uses only the standard library.

    die_with_parent.py PARENT_PID COMMAND...

For commands without children; the others need a supervisor.
"""

import ctypes
import os
import signal
import sys

_SET_PDEATHSIG = 1  # linux/prctl.h


def main(parent: int, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() == parent:  # else the parent has ended already, and no signal will come
        os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
