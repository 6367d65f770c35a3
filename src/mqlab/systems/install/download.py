"""Installs the parts of systems with the package managers of this machine, into the user's cache folder.

An installation is made in a temporary folder and renamed when it is complete, so a partial one is never used.
"""

import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from mqlab.cache import cache as cache
from mqlab.systems.api import SystemFailedError
from mqlab.systems.install.package_managers import MAVEN as _MAVEN
from mqlab.systems.install.package_managers import apt_get, copy_artifact, copy_dependencies, require_program, run

_EXTRA_PATH: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_NAME_LENGTH: Final = 60
_JRE: Final = "openjdk-17-jre-headless"
_GO: Final = "golang-go"


@dataclass(frozen=True)
class Archive:
    """An unpacked Maven artifact: `group:artifact:version:type[:classifier]`, with type tar.gz or zip.

    Outer folders that contain only one folder are left out.
    """

    coordinates: str


@dataclass(frozen=True)
class Jars:
    """Maven artifacts (`group:artifact:version`) with their dependencies, except `exclusions` (`group:artifact`)."""

    coordinates: tuple[str, ...]
    exclusions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Debian:
    """Debian packages, and the program (a name or a path) that they install."""

    packages: tuple[str, ...]
    program: str


@dataclass(frozen=True)
class GoProgram:
    """A main package of a Go module, such as `github.com/nats-io/nats-server/v2@v2.15.2`."""

    module: str

    @property
    def program(self) -> str:
        """The name that Go gives it: the last part of the path that is not a major version."""
        words = self.module.partition("@")[0].split("/")
        is_version = len(words) > 1 and words[-1][:1] == "v" and words[-1][1:].isdigit()
        return words[-2] if is_version else words[-1]


@dataclass(frozen=True)
class Java:
    """A Java runtime: that of JAVA_HOME, else the one on the PATH."""


Part = Archive | Jars | Debian | GoProgram | Java


def of_version(part: Part, old: str, new: str) -> Part:
    """The part in another version, if it has the version `old`; else the same."""
    match part:
        case Archive(coordinates):
            return Archive(_of_version(coordinates, old, new))
        case Jars(coordinates, exclusions):
            return Jars(tuple(_of_version(one, old, new) for one in coordinates), exclusions)
        case GoProgram(module) if module.endswith(f"@v{old}"):
            return GoProgram(f"{module.removesuffix(old)}{new}")
        case _:
            return part


def _of_version(coordinates: str, old: str, new: str) -> str:
    """Of a Maven artifact, the third word."""
    words = coordinates.split(":")
    return ":".join((*words[:2], new, *words[3:])) if words[2:3] == [old] else coordinates


def path_of(part: Part) -> Path:
    """Where the part is or would be: the unpacked folder, the folder of jars, or the program."""
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
            return Path(_find_program(program) or program)
        case Java():
            return Path(_find_java() or "java")


def missing(part: Part) -> str:
    """Tell in a few words which part is not installed; "" if it is installed."""
    match part:
        case Debian(packages, program):
            return "" if _find_program(program) else f"no {Path(program).name}, of the Debian package {packages[0]}"
        case Java():
            return "" if _find_java() else "no Java runtime"
        case _:
            path = path_of(part)
            return "" if path.exists() else f"no {path.relative_to(cache())} in {cache()}"


def machine_packages(part: Part) -> tuple[str, ...]:
    """The Debian packages that `install` would add for all users of this machine; all else goes into the cache."""
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


def install(part: Part, say: Callable[[str], None]) -> None:
    """Install the part, unless it is installed. Raises SystemFailedError with the package manager's output."""
    if not missing(part):
        return
    match part:
        case Archive(coordinates):
            say(f"getting {coordinates} with Maven")
            _create_atomically(path_of(part), lambda folder: _unpack_archive(coordinates, folder))
        case Jars(coordinates=artifacts, exclusions=exclusions):
            say(f"getting {', '.join(artifacts)} and their dependencies with Maven")
            _create_atomically(path_of(part), lambda folder: copy_dependencies(artifacts, exclusions, folder))
        case GoProgram(module):
            say(f"building {module} with Go")
            _create_atomically(path_of(part).parent, lambda folder: _build(module, folder))
        case Debian(packages, _):
            say(f"installing {', '.join(packages)} with apt-get")
            apt_get(packages)
        case Java():
            say(f"installing {_JRE} with apt-get")
            apt_get((_JRE,))
    if reason := missing(part):
        raise SystemFailedError(f"it was installed, and there is still {reason}")


def _unpack_archive(coordinates: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as download:
        unpack(copy_artifact(coordinates, Path(download)), folder)


def _build(module: str, folder: Path) -> None:
    go = require_program("go", _GO)
    target = module if "@" in module else f"{module}@latest"
    run([go, "install", target], environment={"GOBIN": str(folder)})


def _create_atomically(path: Path, fill: Callable[[Path], None]) -> None:
    """Fill a temporary folder, and rename it to `path` when it is complete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".getting-", dir=path.parent) as temporary:
            complete = Path(temporary) / "complete"
            complete.mkdir()
            fill(complete)
            try:
                complete.rename(path)
            except OSError:
                # Another process may have installed it at the same time.
                if not path.exists():
                    raise
    except OSError as error:
        raise SystemFailedError(f"{path}: {error.strerror or error}") from error


def _find_program(program: str) -> str | None:
    return shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), *_EXTRA_PATH)))


def _find_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


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
