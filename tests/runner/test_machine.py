import os
import platform
from pathlib import Path

import psutil
import pytest

from mqlab.runner.machine import describe_machine, package_versions


def java(folder: Path, script: str) -> str:
    """A JAVA_HOME with a java that does this."""
    program = folder / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(folder / "home")


def test_it_says_what_a_figure_needs(tmp_path: Path) -> None:
    found = describe_machine(tmp_path)
    assert [*found] == ["id", "cpu", "cores", "memory", "os", "kernel", "python", "java", "clock", "filesystem"]
    assert found["cores"] == os.cpu_count()
    assert found["memory"] == psutil.virtual_memory().total
    assert found["python"] == platform.python_version()
    assert found["kernel"] == os.uname().release


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'openjdk version \"17.0.9\" 2023-10-17' >&2", "17.0.9"),
        ("echo no version at all >&2", None),
        ("exit 1", None),
    ],
)
def test_the_java_that_spark_will_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str | None
) -> None:
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, script))
    assert describe_machine(tmp_path)["java"] == said


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert describe_machine(tmp_path)["java"] is None
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_machine(tmp_path)["java"] is None


def test_the_file_system_is_that_of_the_folder() -> None:
    kinds = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    assert describe_machine(Path("/proc/self"))["filesystem"] == kinds["/proc"] == "proc"
    # A name that begins like a mount point is not in it.
    assert describe_machine(Path("/process"))["filesystem"] == kinds["/"]


def test_the_versions_of_what_moves_messages_and_computes_figures() -> None:
    found = package_versions()
    assert {"numpy", "pyarrow", "pyspark", "uvloop"} <= found.keys()
    assert all(version[0].isdigit() for version in found.values())
