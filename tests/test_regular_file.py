"""Every file that mqlab is given is a regular file of bounded size: a FIFO or a device is refused at once."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.broker.config import settings_from
from mqlab.broker.security.users import Users
from mqlab.broker.server.channels.receiving_end import read_password
from mqlab.broker.server.trace.stanzas import read_stanzas
from mqlab.broker.settings import SettingError
from mqlab.events.folder import NotARunFolderError, RunFolder
from mqlab.events.schema import SCHEMA_VERSION
from mqlab.regular_file import read_regular
from mqlab.study import StudyError, load_study
from mqlab.wire.tls import TlsError, client_context, server_context

STUDY = """study: mine
title: Mine
scenarios: {A: {topics: 1, producers: 1, consumers: 1, message: {size: 12B}}}
"""
DEVICE = Path("/dev/zero")


def study_with(line: str) -> Callable[[Path], object]:
    """A reader of the study whose file names the input."""

    def read(path: Path) -> object:
        study = path.parent / "study.yaml"
        study.write_text(f"{STUDY}{line}: {path.name}\n")
        return load_study(study)

    return read


def run_folder(meta: Path) -> RunFolder:
    folder = meta.parent / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "meta.json").symlink_to(meta)
    return RunFolder.open(folder)


READERS: dict[str, Callable[[Path], object]] = {
    "study": load_study,
    "claims": study_with("claims"),
    "published": study_with("published"),
    "config": settings_from,
    "users": Users.read,
    "stanzas": read_stanzas,
    "password": read_password,
    "certificate": lambda path: server_context(path, path),
    "ca": client_context,
    "meta.json": run_folder,
}
REFUSED = (StudyError, SettingError, NotARunFolderError, TlsError, OSError)


@pytest.fixture(params=["fifo", "device", "folder"])
def not_a_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "input"
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to(DEVICE)
    else:
        path.mkdir()
    return path


@pytest.mark.timeout(600)
@pytest.mark.parametrize("reader", READERS)
def test_only_a_regular_file_is_read(reader: str, not_a_file: Path) -> None:
    with pytest.raises(REFUSED) as refused:
        READERS[reader](not_a_file)
    text = str(refused.value)
    assert any(words in text for words in ("not a regular file", "Is a directory", "is a folder", "study's folder"))


@pytest.mark.parametrize("reader", [name for name in READERS if name not in ("certificate", "ca")])
def test_a_file_of_gigabytes_is_refused(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "input"
    with path.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(REFUSED, match="is longer than"):
        READERS[reader](path)


def test_a_file_at_the_limit_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"abc")
    assert read_regular(path, 3) == b"abc"
    with pytest.raises(OSError, match="is longer than 2 bytes"):
        read_regular(path, 2)


def test_a_run_folder_is_opened_by_its_meta(tmp_path: Path) -> None:
    meta = tmp_path / "meta"
    meta.write_text(json.dumps({"schema_version": SCHEMA_VERSION}))
    assert run_folder(meta).meta()["schema_version"] == SCHEMA_VERSION
