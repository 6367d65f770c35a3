"""The package managers of this machine: Maven, apt-get, and other programs that install."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from mqlab.systems.api import SystemFailedError

# Enough for a slow network and a build from source.
_MAX_SECONDS: Final = 1800.0
_TAIL_LINES: Final = 6
MAVEN: Final = "maven"
_POLICY: Final = Path("/usr/sbin/policy-rc.d")

_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>mqlab</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""


def require_program(program: str, package: str) -> str:
    """The path of the program; apt-get installs it if needed. Raises SystemFailedError."""
    path = shutil.which(program)
    if path is None:
        apt_get((package,))
        path = shutil.which(program)
    if path is None:
        raise SystemFailedError(f"{program} is needed, and was not found after {package} was installed")
    return path


def copy_artifact(coordinates: str, folder: Path) -> Path:
    """Copy the file of a Maven artifact into an empty folder. Returns its path."""
    mvn = require_program("mvn", MAVEN)
    run([mvn, "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"], folder=folder)
    return _only_file(folder, coordinates)


def copy_dependencies(coordinates: Sequence[str], exclusions: Sequence[str], folder: Path) -> None:
    """Copy the jars of Maven artifacts and of their dependencies into a folder."""
    mvn = require_program("mvn", MAVEN)
    without = "".join(f"<exclusion>{_tags(exclusion, 'groupId', 'artifactId')}</exclusion>" for exclusion in exclusions)
    elements = "".join(
        f"<dependency>{_tags(artifact, 'groupId', 'artifactId', 'version', 'type', 'classifier')}"
        f"<exclusions>{without}</exclusions></dependency>" for artifact in coordinates
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as project:
        pom = Path(project) / "pom.xml"
        pom.write_text(_POM.format(dependencies=elements))
        run([
            mvn, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime",
            f"-DoutputDirectory={folder}",
        ], folder=Path(project))  # fmt: skip


def apt_get(packages: Sequence[str]) -> None:
    """Install packages, without starting their services. Raises SystemFailedError."""
    names = " ".join(packages)
    program = shutil.which("apt-get")
    if program is None:
        raise SystemFailedError(f"install {names} with the package manager of this machine: there is no apt-get")
    if os.geteuid() != 0:
        raise SystemFailedError(f"installing packages is for root: sudo apt-get install {names}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    install = [program, "install", "-y", "-q", "--no-install-recommends", *packages]
    with _services_not_started():
        try:
            run(install, environment=quiet)
        except SystemFailedError:
            # The package lists may be missing or outdated.
            run([program, "update", "-q"], environment=quiet)
            run(install, environment=quiet)
    _disable_services(packages)


def run(arguments: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
    """Run a program. Raises SystemFailedError with its last lines of output if it fails."""
    name = Path(arguments[0]).name
    try:
        process = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", env={**os.environ, **(environment or {})}, cwd=folder, timeout=_MAX_SECONDS,
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise SystemFailedError(f"{name} cannot be run: {error.strerror or error}") from error
    except subprocess.TimeoutExpired:
        raise SystemFailedError(f"{name} did not end within {_MAX_SECONDS:g} s") from None
    if process.returncode:
        output = [line.strip() for line in process.stdout.splitlines() if line.strip()]
        raise SystemFailedError(f"{name} failed: " + (" / ".join(output[-_TAIL_LINES:]) or "without output"))


@contextmanager
def _services_not_started() -> Iterator[None]:
    """A policy that keeps packages from starting their services at installation."""
    if _POLICY.exists():
        yield
        return
    try:
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
        yield
    finally:
        _POLICY.unlink(missing_ok=True)


def _disable_services(packages: Sequence[str]) -> None:
    systemctl = shutil.which("systemctl")
    if systemctl is None or not Path("/run/systemd/system").exists():
        return
    for package in packages:
        if Path(f"/lib/systemd/system/{package}.service").exists():
            run([systemctl, "disable", "-q", package])


def _tags(coordinates: str, *names: str) -> str:
    words = coordinates.split(":")
    return "".join(f"<{name}>{escape(word)}</{name}>" for name, word in zip(names, words, strict=False))


def _only_file(folder: Path, artifact: str) -> Path:
    files = [path for path in folder.iterdir() if path.is_file()]
    if len(files) != 1:
        raise SystemFailedError(f"{artifact}: Maven brought {len(files)} files instead of one")
    return files[0]
