"""Systems that `mqlab systems start` runs: each has a file in the cache folder, so that other commands find it."""

import json
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from mqlab.regular_file import read_regular
from mqlab.systems.install.download import cache

_STOP_TIMEOUT_S: Final = 30.0
# Enough for some hundred addresses.
_MAX_FILE_BYTES: Final = 1_000_000


@dataclass(frozen=True)
class StartedSystem:
    """A running system. `pid` and `created` identify the `mqlab` process that started it and ends with it."""

    system: str
    pid: int
    created: float
    # By driver name.
    addresses: dict[str, str]
    options: dict[str, dict[str, str]]

    def process(self) -> psutil.Process | None:
        """Return the process, or None if it has ended; another process may have its pid now."""
        with suppress(psutil.Error):
            process = psutil.Process(self.pid)
            if process.create_time() == self.created and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def document(self) -> dict[str, object]:
        return {key: value for key, value in asdict(self).items() if key != "created"}

    def save(self) -> None:
        path = _folder() / f"{self.pid}.json"
        new = path.with_suffix(".new")
        new.touch(mode=0o600)  # it contains passwords
        new.write_text(json.dumps(asdict(self)))
        new.rename(path)

    def stop(self) -> bool:
        """Return whether it stopped in time; otherwise it is killed, and its supervisor stops the system."""
        process = self.process()
        if process is None:
            return True
        with suppress(psutil.NoSuchProcess):
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except psutil.TimeoutExpired:
                process.kill()
                return False
        return True


def data_folder(pid: int) -> Path:
    return _folder() / str(pid)


def running_systems() -> list[StartedSystem]:
    """Return the running systems, and remove the files of all others."""
    running = []
    for path in sorted(_folder().glob("*.json")):
        try:
            started = StartedSystem(**json.loads(read_regular(path, _MAX_FILE_BYTES)))
        except (OSError, ValueError, TypeError):
            continue
        if started.process() is not None:
            running.append(started)
        else:
            remove_files(started.pid)
    # Processes that were killed before they saved their file leave a data folder.
    for path in _folder().iterdir():
        pid = path.name.partition(".")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            remove_files(int(pid))
    return running


def remove_files(pid: int) -> None:
    """Remove the file and the data of the system that this process started."""
    data = data_folder(pid)
    for path in _folder().glob(f"{pid}*"):
        if path == data or path.name.startswith(f"{pid}."):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _folder() -> Path:
    folder = cache() / "started"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
