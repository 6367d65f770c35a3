"""One broker a data folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from mqlab.broker.store.files.lock import FolderInUseError, FolderLock

TRY = "import pathlib, sys; from mqlab.broker.store.files.lock import FolderLock; FolderLock(pathlib.Path(sys.argv[1]))"


def test_a_folder_is_locked_until_it_is_released(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(FolderInUseError, match=str(tmp_path)):
        FolderLock(tmp_path)
    lock.release()
    FolderLock(tmp_path).release()


def test_another_process_is_kept_out_too(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    command = [sys.executable, "-c", TRY, str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "FolderInUseError" in refused.stderr
    lock.release()
    subprocess.run(command, check=True)
    # It ended without releasing anything: the lock went with the process.
    FolderLock(tmp_path).release()
