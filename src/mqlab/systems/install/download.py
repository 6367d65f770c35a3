"""Gets what systems are made of with the package clients of this machine, into a folder of the user's cache.

Every install is made beside its place and renamed to it when it is whole: a half one never counts.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from mqlab.cache import cache as cache
from mqlab.systems.api import SystemFailedError
from mqlab.systems.install.package_clients import MAVEN as _MAVEN
from mqlab.systems.install.package_clients import apt_get, client, copied, dependencies, run
from mqlab.systems.install.unpacking import unpacked

_SEARCHED: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_NAME_LENGTH: Final = 60
_JRE: Final = "openjdk-17-jre-headless"
_GO: Final = "golang-go"


@dataclass(frozen=True)
class Archive:
    """An artifact of Maven, unpacked: `group:artifact:version:tar.gz:bin` (or zip, and with or without a classifier).

    Folders that hold nothing but one folder are left out of its place.
    """

    coordinates: str


@dataclass(frozen=True)
class Jars:
    """Artifacts of Maven (`group:artifact:version`) with all they depend on but `exclusions` (`group:artifact`)."""

    coordinates: tuple[str, ...]
    exclusions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Debian:
    """Packages, and the program (a name, or where it is for certain) that is there once they are installed."""

    packages: tuple[str, ...]
    program: str


@dataclass(frozen=True)
class GoProgram:
    """`github.com/nats-io/nats-server/v2@v2.15.2`: one main package."""

    module: str

    @property
    def program(self) -> str:
        """As Go names it: the last word of the path that is not the number of a major version."""
        words = self.module.partition("@")[0].split("/")
        is_version = len(words) > 1 and words[-1][:1] == "v" and words[-1][1:].isdigit()
        return words[-2] if is_version else words[-1]


@dataclass(frozen=True)
class Java:
    """A Java runtime: that of JAVA_HOME, else the one on the PATH. Its place is the program."""


Part = Archive | Jars | Debian | GoProgram | Java


def place(part: Part) -> Path:
    """Where it is or would be: the unpacked folder, the folder of jars, the program."""
    match part:
        case Archive(coordinates):
            _, artifact, version, *rest = coordinates.split(":")
            return cache() / "archives" / "-".join((artifact, version, *rest[1:]))
        case Jars(coordinates, exclusions):
            digest = sha256("\n".join((*coordinates, "", *exclusions)).encode()).hexdigest()[:12]
            _, artifact, version = coordinates[0].split(":")[:3]
            return cache() / "jars" / f"{artifact}-{version}"[:_NAME_LENGTH] / digest
        case GoProgram(module):
            version = module.partition("@")[2] or "latest"
            return cache() / "go" / f"{part.program}-{version}" / part.program
        case Debian(_, program):
            return Path(_found(program) or program)
        case Java():
            return Path(_java() or "java")


def missing(part: Part) -> str:
    """What is not there, in a few words; "" if it is all there."""
    match part:
        case Debian(packages, program):
            return "" if _found(program) else f"no {Path(program).name}, of the Debian package {packages[0]}"
        case Java():
            return "" if _java() else "no Java runtime"
        case _:
            return "" if place(part).exists() else f"no {place(part).relative_to(cache())} in {cache()}"


def machine_packages(part: Part) -> tuple[str, ...]:
    """The Debian packages that `get` would install for all users of this machine; all else goes into the cache."""
    if not missing(part):
        return ()
    match part:
        case Debian(packages, _):
            return packages
        case Java():
            return (_JRE,)
        case GoProgram():
            return () if shutil.which("go") else (_GO,)
        case _:
            return () if shutil.which("mvn") else (_MAVEN,)


def get(part: Part, say: Callable[[str], None]) -> None:
    """Nothing is done if it is there already. Raises SystemFailedError with the client's last words."""
    if not missing(part):
        return
    match part:
        case Archive(coordinates):
            say(f"getting {coordinates} with Maven")
            _whole(place(part), lambda folder: _archive(coordinates, folder))
        case Jars(wanted, exclusions):
            say(f"getting {', '.join(wanted)} and what they depend on with Maven")
            _whole(place(part), lambda folder: dependencies(wanted, exclusions, folder))
        case GoProgram(module):
            say(f"building {module} with Go")
            _whole(place(part).parent, lambda folder: _built(module, folder))
        case Debian(packages, _):
            say(f"installing {', '.join(packages)} with apt-get")
            apt_get(packages)
        case Java():
            say(f"installing {_JRE} with apt-get")
            apt_get((_JRE,))
    if why := missing(part):
        raise SystemFailedError(f"it was installed, and there is still {why}")


def _archive(coordinates: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as download:
        unpacked(copied(coordinates, Path(download)), folder)


def _built(module: str, folder: Path) -> None:
    go = client("go", _GO)
    target = module if "@" in module else f"{module}@latest"
    run([go, "install", target], environment={"GOBIN": str(folder)})


def _whole(at: Path, fill: Callable[[Path], None]) -> None:
    """Fills a folder beside it, and renames it when that is done."""
    try:
        at.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".getting-", dir=at.parent) as beside:
            made = Path(beside) / "whole"
            made.mkdir()
            fill(made)
            try:
                made.rename(at)
            except OSError:
                # Somebody else was quicker: what is there is whole.
                if not at.exists():
                    raise
    except OSError as error:
        raise SystemFailedError(f"{at}: {error.strerror or error}") from error


def _found(program: str) -> str | None:
    return shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), *_SEARCHED)))


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
