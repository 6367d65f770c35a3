"""The process of a mounted disk: a script that mounts a file system in a file, and removes it when its stdin closes.

    mount_process.py FOLDER BYTES

It prints `mounted`, or why that is impossible. The lines `fill` and `free` of its stdin are answered with `ok`. While
the disk is filled, the process also takes the space that others give back. It uses only the standard library.
"""

import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_BALLAST = "ballast"
_LARGEST_STEP, _SMALLEST_STEP = 1 << 30, 4096
_REFILL_SECONDS = 0.02


def main(folder: Path, size: int) -> None:
    image = folder.with_name(f"{folder.name}.image")
    try:
        folder.mkdir(parents=True)
        with image.open("xb") as file:
            file.truncate(size)
        # No space for root alone: a system that runs as root could use it.
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
        _run("mount", "-o", "loop", str(image), str(folder))
        print("mounted", flush=True)
        _serve(folder)
    except OSError as error:
        print(" ".join(str(error).split()), flush=True)
    finally:
        # Also while processes of a system that is being killed have files open.
        subprocess.run(("umount", "-l", str(folder)), stderr=subprocess.DEVNULL, check=False)
        image.unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip() or f'code {done.returncode}'}")


def _serve(folder: Path) -> None:
    ballast = -1
    while True:
        ready, _, _ = select.select([0], [], [], None if ballast < 0 else _REFILL_SECONDS)
        # The lab sends one line, and waits for its answer.
        line = os.read(0, 64) if ready else b""
        if ready and not line:
            return
        if line == b"fill\n" and ballast < 0:
            ballast = os.open(folder / _BALLAST, os.O_WRONLY | os.O_CREAT)
        if line == b"free\n" and ballast >= 0:
            os.close(ballast)
            ballast = -1
            _remove(folder)
        if ballast >= 0:
            _fill(ballast)
        if line:
            print("ok", flush=True)


def _fill(ballast: int) -> None:
    """Extend the file until not even a block is left."""
    step = _LARGEST_STEP
    while step >= _SMALLEST_STEP:
        try:
            os.posix_fallocate(ballast, os.fstat(ballast).st_size, step)
        except OSError:
            step //= 2


def _remove(folder: Path) -> None:
    (folder / _BALLAST).unlink(missing_ok=True)
    # The file system reuses the space after this.
    names = os.open(folder, os.O_RDONLY)
    os.fsync(names)
    os.close(names)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
