"""The package clients of this machine: Maven, apt-get, and whatever else is called as a program."""

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

# A slow line and a source build: long, but not for ever.
_LONGEST_SECONDS: Final = 1800.0
_LAST_LINES: Final = 6
MAVEN: Final = "maven"
_POLICY: Final = Path("/usr/sbin/policy-rc.d")

_POM: Final = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>mqlab</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""


def client(program: str, package: str) -> str:
    """The program; got with apt-get if it is not there and that is allowed. Raises SystemFailedError."""
    found = shutil.which(program)
    if found is None:
        apt_get((package,))
        found = shutil.which(program)
    if found is None:
        raise SystemFailedError(f"{program} is needed, and was not found after {package} was installed")
    return found


def copied(coordinates: str, folder: Path) -> Path:
    """The file of one artifact, copied into an empty folder."""
    mvn = client("mvn", MAVEN)
    run([mvn, "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"], folder=folder)
    return _only(folder, coordinates)


def dependencies(coordinates: Sequence[str], exclusions: Sequence[str], folder: Path) -> None:
    """The jars of these artifacts and of all that they depend on, into a folder."""
    mvn = client("mvn", MAVEN)
    without = "".join(f"<exclusion>{_tags(one, 'groupId', 'artifactId')}</exclusion>" for one in exclusions)
    wanted = "".join(
        f"<dependency>{_tags(one, 'groupId', 'artifactId', 'version', 'type', 'classifier')}"
        f"<exclusions>{without}</exclusions></dependency>" for one in coordinates
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as project:
        pom = Path(project) / "pom.xml"
        pom.write_text(_POM.format(dependencies=wanted))
        run([
            mvn, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime",
            f"-DoutputDirectory={folder}",
        ], folder=Path(project))  # fmt: skip


def apt_get(packages: Sequence[str]) -> None:
    """Raises SystemFailedError if this machine or this user cannot do that. No service of them is started."""
    names = " ".join(packages)
    program = shutil.which("apt-get")
    if program is None:
        raise SystemFailedError(f"install {names} with the package client of this machine: there is no apt-get")
    if os.geteuid() != 0:
        raise SystemFailedError(f"installing packages is for root: sudo apt-get install {names}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    install = [program, "install", "-y", "-q", "--no-install-recommends", *packages]
    with _services_at_rest():
        try:
            run(install, environment=quiet)
        except SystemFailedError:
            # The lists of packages may be old, or have never been got.
            run([program, "update", "-q"], environment=quiet)
            run(install, environment=quiet)
    _not_at_boot(packages)


def run(arguments: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
    """Raises SystemFailedError with its last words if it does not succeed."""
    name = Path(arguments[0]).name
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", env={**os.environ, **(environment or {})}, cwd=folder, timeout=_LONGEST_SECONDS,
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise SystemFailedError(f"{name} cannot be run: {error.strerror or error}") from error
    except subprocess.TimeoutExpired:
        raise SystemFailedError(f"{name} was not done after {_LONGEST_SECONDS:g} s") from None
    if done.returncode:
        said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        raise SystemFailedError(f"{name} failed: " + (" / ".join(said[-_LAST_LINES:]) or "it said nothing"))


@contextmanager
def _services_at_rest() -> Iterator[None]:
    """Packages start the services they bring unless a policy forbids it."""
    if _POLICY.exists():
        yield
        return
    try:
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
        yield
    finally:
        _POLICY.unlink(missing_ok=True)


def _not_at_boot(packages: Sequence[str]) -> None:
    systemctl = shutil.which("systemctl")
    if systemctl is None or not Path("/run/systemd/system").exists():
        return
    for package in packages:
        if Path(f"/lib/systemd/system/{package}.service").exists():
            run([systemctl, "disable", "-q", package])


def _tags(coordinates: str, *names: str) -> str:
    words = coordinates.split(":")
    return "".join(f"<{name}>{escape(word)}</{name}>" for name, word in zip(names, words, strict=False))


def _only(folder: Path, what: str) -> Path:
    files = [path for path in folder.iterdir() if path.is_file()]
    if len(files) != 1:
        raise SystemFailedError(f"{what}: Maven brought {len(files)} files instead of one")
    return files[0]
