"""Becomes a command that ends with whoever has started it, by whatever cause. A script: only the standard library.

    bound.py PARENT COMMAND...

For a command without children; whatever has some needs a keeper.
"""

import ctypes
import os
import signal
import sys

_SET_PDEATHSIG = 1  # linux/prctl.h


def main(parent: int, command: list[str]) -> None:
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() == parent:  # else it is gone already, and no signal will come
        os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
