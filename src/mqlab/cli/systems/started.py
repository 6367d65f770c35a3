"""Systems that were started to be tried: a note of each in the cache folder, so that others find it."""

import json
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from mqlab.regular_file import read_regular
from mqlab.systems.install.download import cache

_END_SECONDS: Final = 30.0
# Room for some hundred addresses.
_NOTE_BYTES: Final = 1_000_000


@dataclass(frozen=True)
class Started:
    """`pid` and `created` are those of the `mqlab` that has started it: it ends with that."""

    system: str
    pid: int
    created: float
    # By the name of the driver.
    addresses: dict[str, str]
    options: dict[str, dict[str, str]]

    def process(self) -> psutil.Process | None:
        """None: it is gone, and its number may be somebody else's by now."""
        with suppress(psutil.Error):
            found = psutil.Process(self.pid)
            if found.create_time() == self.created and found.status() != psutil.STATUS_ZOMBIE:
                return found
        return None

    def shown(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "created"}

    def note(self) -> None:
        path = _folder() / f"{self.pid}.json"
        new = path.with_suffix(".new")
        new.touch(mode=0o600)  # it tells how to log in
        new.write_text(json.dumps(asdict(self)))
        new.rename(path)

    def end(self) -> bool:
        """Whether it ended in time; if not, it is killed, and its keeper ends the system."""
        process = self.process()
        if process is None:
            return True
        with suppress(psutil.NoSuchProcess):
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except psutil.TimeoutExpired:
                process.kill()
                return False
        return True


def data_of(pid: int) -> Path:
    """Where the system that this process starts has its data."""
    return _folder() / str(pid)


def all_started() -> list[Started]:
    """Those that are up. What is left of others is removed."""
    found = []
    for path in sorted(_folder().glob("*.json")):
        try:
            one = Started(**json.loads(read_regular(path, _NOTE_BYTES)))
        except (OSError, ValueError, TypeError):
            continue
        if one.process() is not None:
            found.append(one)
        else:
            forget(one.pid)
    # Those that were killed before they could be noted.
    for path in _folder().iterdir():
        pid = path.name.partition(".")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            forget(int(pid))
    return found


def forget(pid: int) -> None:
    """What this process has started, with its data, once it is gone."""
    data = data_of(pid)
    for path in _folder().glob(f"{pid}*"):
        if path == data or path.name.startswith(f"{pid}."):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _folder() -> Path:
    folder = cache() / "started"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
