"""Unpacks an archive: no file gets outside of the folder, and executables stay executable."""

import shutil
import tarfile
import zipfile
from pathlib import Path

from mqlab.systems.api import SystemFailedError


def unpack(archive: Path, into: Path) -> None:
    """Unpack into an empty folder, without outer folders that contain only one folder. Raises SystemFailedError."""
    everything = into.with_name(f"{into.name}.all")
    everything.mkdir()
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, everything)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(everything, filter="data")
        inner = everything
        while len(content := list(inner.iterdir())) == 1 and content[0].is_dir():
            inner = content[0]
        for path in list(inner.iterdir()):
            path.rename(into / path.name)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise SystemFailedError(f"{archive.name} cannot be unpacked: {error}") from error
    finally:
        shutil.rmtree(everything, ignore_errors=True)


def _unpack_zip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as members:
        for member in members.infolist():
            path = Path(members.extract(member, into))
            # `extract` does not set the permissions.
            if path.is_file() and (mode := (member.external_attr >> 16) & 0o777):
                path.chmod(mode | 0o600)
