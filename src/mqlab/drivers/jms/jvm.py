"""Java inside this process: one machine, a class loader for each set of jars, and this driver's own classes in it.

These are compiled when they are first used, against the provider's own JMS (javax or jakarta, 1 or 2), into the cache.
"""

import os
import tempfile
from collections.abc import Mapping
from functools import cache as cached
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import jpype

from mqlab.cache import cache
from mqlab.drivers.api import DriverError

_SOURCES: Final = Path(__file__).with_name("java")
_PACKAGE: Final = "mqlab.jms"
# Only where there is JMS 2.
_SECOND: Final = "ByListener.java"
_OPENED: Final = ("java.nio", "sun.nio.ch", "java.lang", "jdk.internal.misc")
_ARGUMENTS: Final = (
    # Signals are Python's.
    "-Xrs",
    "-XX:+UseParallelGC",
    # Older network libraries reach into these.
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
)


class ProviderClasses:
    """The classes of this driver, over those of one provider."""

    def __init__(self, loader: Any) -> None:
        self._bell = jpype.JClass(f"{_PACKAGE}.Bell", loader=loader)
        self._java = jpype.JClass(f"{_PACKAGE}.Desk", loader=loader)

    def bell(self, descriptor: int) -> Any:
        return self._bell(descriptor)

    def java(self, bell: Any, options: Mapping[str, str]) -> Any:
        settings = jpype.java.util.HashMap()
        for name, value in options.items():
            settings.put(name, value)
        return self._java(bell, settings)


@cached
def provider_classes(jars: tuple[Path, ...]) -> ProviderClasses:
    """Raises DriverError. Kept: systems come and go, the agent stays."""
    _start()
    provider = _loader(jars)
    space = _namespace(provider)
    compiled = _compiled(jars, space, second=_has(provider, f"{space}.CompletionListener"))
    return ProviderClasses(_loader((compiled, *jars)))


def _start() -> None:
    if jpype.isJVMStarted():
        return
    try:
        jpype.startJVM(*_ARGUMENTS, convertStrings=False)
    except (OSError, jpype.JVMNotFoundException) as error:
        raise DriverError(f"the jms driver needs a Java runtime, 17 or later: {error}") from error
    # What a provider prints must not come between the words of this process; what fails, an exception tells.
    jpype.java.lang.System.setOut(jpype.java.lang.System.err)
    logging = jpype.java.util.logging
    logging.Logger.getLogger("").setLevel(logging.Level.OFF)


def _loader(files: tuple[Path, ...]) -> Any:
    urls = [file.as_uri() + ("/" if file.is_dir() else "") for file in files]
    places = jpype.JArray(jpype.java.net.URL)([jpype.java.net.URL(url) for url in urls])
    return jpype.java.net.URLClassLoader(places, jpype.java.lang.ClassLoader.getPlatformClassLoader())


def _namespace(loader: Any) -> str:
    for space in ("javax.jms", "jakarta.jms"):
        if _has(loader, f"{space}.Session"):
            return space
    raise DriverError("the jms driver: jars: none of them has JMS itself (javax.jms or jakarta.jms)")


def _has(loader: Any, name: str) -> bool:
    try:
        loader.loadClass(name)
    except jpype.JException:
        return False
    return True


def _compiled(jars: tuple[Path, ...], space: str, *, second: bool) -> Path:
    """The folder of the classes. Made beside its place and renamed, so that a half one never counts."""
    sources = {
        path.name: path.read_text().replace("javax.jms", space)
        for path in sorted(_SOURCES.glob("*.java"))
        if second or path.name != _SECOND
    }
    java = str(jpype.java.lang.System.getProperty("java.specification.version"))
    digest = sha256("\0".join((java, space, *sources, *sources.values())).encode()).hexdigest()[:16]
    place = cache() / "jms" / digest
    if place.exists():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".compiling-", dir=place.parent) as beside:
            made = Path(beside) / "classes"
            _compile(jars, sources, Path(beside), made)
            try:
                made.rename(place)
            except OSError:
                # Another agent was quicker: what is there is whole.
                if not place.exists():
                    raise
    except OSError as error:
        raise DriverError(f"the jms driver cannot keep its classes in {place.parent}: {error.strerror}") from error
    return place


def _compile(jars: tuple[Path, ...], sources: Mapping[str, str], folder: Path, made: Path) -> None:
    compiler = jpype.javax.tools.ToolProvider.getSystemJavaCompiler()
    if compiler is None:
        home = jpype.java.lang.System.getProperty("java.home")
        raise DriverError(
            f"the jms driver compiles its own classes once, and the Java in {home} has no compiler: set JAVA_HOME to a "
            "JDK (on Debian: apt-get install openjdk-17-jdk-headless)"
        )
    made.mkdir()
    for name, text in sources.items():
        (folder / name).write_text(text)
    said = jpype.java.io.ByteArrayOutputStream()
    path = os.pathsep.join(map(str, jars))
    arguments = ["-proc:none", "-nowarn", "-d", str(made), "-cp", path, *(str(folder / name) for name in sources)]
    if compiler.run(None, said, said, arguments) != 0:
        raise DriverError(f"the jms driver: its classes do not fit this JMS: {str(said.toString()).strip()[:2000]}")
