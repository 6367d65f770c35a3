"""The archive of Spark's classes, which an environment may have."""

import subprocess
from pathlib import Path

import pytest

from mqlab.pipeline.java import class_archive
from mqlab.pipeline.java.class_archive import archive_option


def test_java_gets_the_archive_that_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "classes.jsa")
    assert archive_option() == ""
    (tmp_path / "classes.jsa").touch()
    assert archive_option() == f"-XX:SharedArchiveFile={tmp_path / 'classes.jsa'}"


def test_java_starts_with_a_damaged_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "ARCHIVE", tmp_path / "classes.jsa")
    (tmp_path / "classes.jsa").write_bytes(b"no archive")
    java = subprocess.run(["java", archive_option(), "-version"], capture_output=True, text=True, check=True)
    assert "version" in java.stderr
