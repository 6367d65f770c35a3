"""The lab's handle on the process of a mounted disk."""

import asyncio
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqlab.systems.api import OwnDisk, SystemFailedError
from mqlab.systems.disk import mount_process

# Enough for the files that a system reserves and for what is under way in a run. The image takes only what is written.
_DISK_BYTES: Final = 1 << 30
_PROGRAMS: Final = ("mkfs.ext4", "mount", "umount")
_ANSWER_SECONDS: Final = 60.0


def why_no_own_disk() -> str:
    """Why the lab cannot make a disk on this machine; "" if it can."""
    if os.geteuid() != 0:
        return "only root can mount a disk of its own for the system"
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    return f"there is no {missing[0]} on this machine" if missing else ""


class MountedDisk(OwnDisk):
    """A file system in a file, mounted at a folder as long as its process runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def make(cls, folder: Path) -> "MountedDisk":
        """Mount an empty disk at `folder`, which does not exist yet. Raises SystemFailedError."""
        # In its own session: Ctrl-C in a terminal reaches only the conductor.
        disk = cls(await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", mount_process.__file__, str(folder.absolute()), str(_DISK_BYTES),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        ))  # fmt: skip
        try:
            if (answer := await disk._answer()) != "mounted":
                raise SystemFailedError(f"the lab cannot make a disk: {answer}")
        except BaseException:
            await asyncio.shield(disk.remove())
            raise
        return disk

    async def fill(self) -> None:
        await self._ask("fill")

    async def free(self) -> None:
        await self._ask("free")

    async def remove(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def _ask(self, command: str) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, RuntimeError):  # uvloop raises RuntimeError for a closed pipe
            self._process.stdin.write(f"{command}\n".encode())
            await self._process.stdin.drain()
        if (answer := await self._answer()) != "ok":
            raise SystemFailedError(f"the lab cannot {command} the disk: {answer}")

    async def _answer(self) -> str:
        assert self._process.stdout is not None
        try:
            answer = await asyncio.wait_for(self._process.stdout.readline(), _ANSWER_SECONDS)
        except TimeoutError:
            return f"its process did not answer within {_ANSWER_SECONDS:g} s"
        return answer.decode().strip() or "its process has ended"
