"""The JVM inside this process, with a class loader for each set of jars and the driver's own Java classes in it.

The driver compiles these classes on first use against the provider's JMS (javax or jakarta, 1 or 2), into the cache.
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

# Any: jpype has no types, and makes the classes of Java objects at run time.
JavaObject = Any
_SOURCES: Final = Path(__file__).with_name("java")
_PACKAGE: Final = "mqlab.jms"
# Needs JMS 2.
_JMS_2_SOURCE: Final = "ListenerConfirmedSession.java"
_OPENED_PACKAGES: Final = ("java.nio", "sun.nio.ch", "java.lang", "jdk.internal.misc")
_ARGUMENTS: Final = (
    # Python handles the signals.
    "-Xrs",
    "-XX:+UseParallelGC",
    # Older network libraries access these packages by reflection.
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
)


class ProviderClasses:
    """The driver's Java classes, loaded with those of one provider."""

    def __init__(self, loader: JavaObject) -> None:
        self._completion_queue = jpype.JClass(f"{_PACKAGE}.CompletionQueue", loader=loader)
        self._connection = jpype.JClass(f"{_PACKAGE}.JmsConnection", loader=loader)

    def completion_queue(self, descriptor: int) -> JavaObject:
        return self._completion_queue(descriptor)

    def connection(self, completions: JavaObject, options: Mapping[str, str]) -> JavaObject:
        settings = jpype.java.util.HashMap()
        for name, value in options.items():
            settings.put(name, value)
        return self._connection(completions, settings)


@cached
def provider_classes(jars: tuple[Path, ...]) -> ProviderClasses:
    """Load the classes for these jars; cached, because an agent outlives the systems. Raise DriverError."""
    _start()
    provider = _loader(jars)
    namespace = _namespace(provider)
    compiled = _compiled(jars, namespace, jms_2=_has(provider, f"{namespace}.CompletionListener"))
    return ProviderClasses(_loader((compiled, *jars)))


def _start() -> None:
    if jpype.isJVMStarted():
        return
    try:
        jpype.startJVM(*_ARGUMENTS, convertStrings=False)
    except (OSError, jpype.JVMNotFoundException) as error:
        raise DriverError(f"the jms driver needs a Java runtime, 17 or later: {error}") from error
    # Providers must not print to the stdout of the agent, which is its protocol. Their errors come as exceptions.
    jpype.java.lang.System.setOut(jpype.java.lang.System.err)
    logging = jpype.java.util.logging
    logging.Logger.getLogger("").setLevel(logging.Level.OFF)


def _loader(files: tuple[Path, ...]) -> JavaObject:
    urls = [file.as_uri() + ("/" if file.is_dir() else "") for file in files]
    class_path = jpype.JArray(jpype.java.net.URL)([jpype.java.net.URL(url) for url in urls])
    return jpype.java.net.URLClassLoader(class_path, jpype.java.lang.ClassLoader.getPlatformClassLoader())


def _namespace(loader: JavaObject) -> str:
    for namespace in ("javax.jms", "jakarta.jms"):
        if _has(loader, f"{namespace}.Session"):
            return namespace
    raise DriverError("the jms driver: jars: none of them has JMS itself (javax.jms or jakarta.jms)")


def _has(loader: JavaObject, name: str) -> bool:
    try:
        loader.loadClass(name)
    except jpype.JException:
        return False
    return True


def _compiled(jars: tuple[Path, ...], namespace: str, *, jms_2: bool) -> Path:
    """Return the folder of the compiled classes. A rename at the end makes it appear complete or not at all."""
    sources = {
        path.name: path.read_text().replace("javax.jms", namespace)
        for path in sorted(_SOURCES.glob("*.java"))
        if jms_2 or path.name != _JMS_2_SOURCE
    }
    java = str(jpype.java.lang.System.getProperty("java.specification.version"))
    digest = sha256("\0".join((java, namespace, *sources, *sources.values())).encode()).hexdigest()[:16]
    target = cache() / "jms" / digest
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".compiling-", dir=target.parent) as work_folder:
            classes = Path(work_folder) / "classes"
            _compile(jars, sources, Path(work_folder), classes)
            try:
                classes.rename(target)
            except OSError:
                # Another agent was faster; its folder is complete.
                if not target.exists():
                    raise
    except OSError as error:
        raise DriverError(f"the jms driver cannot write its classes to {target.parent}: {error.strerror}") from error
    return target


def _compile(jars: tuple[Path, ...], sources: Mapping[str, str], folder: Path, classes: Path) -> None:
    compiler = jpype.javax.tools.ToolProvider.getSystemJavaCompiler()
    if compiler is None:
        home = jpype.java.lang.System.getProperty("java.home")
        raise DriverError(
            f"the jms driver compiles its own classes once, and the Java in {home} has no compiler: set JAVA_HOME to a "
            "JDK (on Debian: apt-get install openjdk-17-jdk-headless)"
        )
    classes.mkdir()
    for name, text in sources.items():
        (folder / name).write_text(text)
    output = jpype.java.io.ByteArrayOutputStream()
    path = os.pathsep.join(map(str, jars))
    arguments = ["-proc:none", "-nowarn", "-d", str(classes), "-cp", path, *(str(folder / name) for name in sources)]
    if compiler.run(None, output, output, arguments) != 0:
        raise DriverError(f"the jms driver: its classes do not fit this JMS: {str(output.toString()).strip()[:2000]}")
