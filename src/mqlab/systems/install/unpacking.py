"""Unpacks an archive into a folder: nothing lands outside of it, and programs stay programs."""

import shutil
import tarfile
import zipfile
from pathlib import Path

from mqlab.systems.api import SystemFailedError


def unpacked(archive: Path, into: Path) -> None:
    """Into an empty folder, without the folders that hold nothing but one folder. Raises SystemFailedError."""
    everything = into.with_name(f"{into.name}.all")
    everything.mkdir()
    try:
        if zipfile.is_zipfile(archive):
            _zip(archive, everything)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(everything, filter="data")
        inner = everything
        while len(held := list(inner.iterdir())) == 1 and held[0].is_dir():
            inner = held[0]
        for one in list(inner.iterdir()):
            one.rename(into / one.name)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise SystemFailedError(f"{archive.name} cannot be unpacked: {error}") from error
    finally:
        shutil.rmtree(everything, ignore_errors=True)


def _zip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as held:
        for one in held.infolist():
            path = Path(held.extract(one, into))
            # Only the bits of a file's mode that say who may do what; extract leaves them out.
            if path.is_file() and (mode := (one.external_attr >> 16) & 0o777):
                path.chmod(mode | 0o600)
