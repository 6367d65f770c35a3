"""The machine and the software of a run, for meta.json."""

import os
import platform
import re
import resource
import shutil
import subprocess
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

_PACKAGES = ("numpy", "pyarrow", "pyspark", "uvloop", "google-crc32c", "psutil")


def describe_machine(data: Path) -> dict[str, str | int | None]:
    """`data` is the folder that the systems write to: the file system matters."""
    return {
        "id": _machine_id(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "os": _os_name(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _java(),
        "clock": _first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "filesystem": filesystem_of(data),
    }


def package_versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def raise_file_limit() -> None:
    """Raise the limit of open files: hundreds of clients need more than the default. Agents and systems inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _machine_id() -> str:
    """The same for all runs of a machine as it is: with another processor or memory it is another one."""
    host = _first_line("/etc/machine-id") or platform.node()
    parts = (host, _cpu(), os.cpu_count(), round(psutil.virtual_memory().total / 2**30))
    return sha256(repr(parts).encode()).hexdigest()[:12]


def _cpu() -> str | None:
    match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else None


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        return None
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'"([^"]+)"', output)
    return match[1] if match else None


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def filesystem_of(path: Path) -> str | None:
    """The type of the file system of the path: the longest mount point that contains it."""
    real = path.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if real.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else None
