"""The round-trip client in Go, `go/round_trips`, which is built when it is first used."""

import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

from _common import HERE, say
from mqlab.cache import cache
from mqlab.systems import SystemFailedError
from mqlab.systems.install.package_managers import run

SOURCE = HERE / "bench" / "go" / "round_trips"


def program() -> Path:
    """Where the program of this very source is, or would be: in the cache folder."""
    digest = sha256(b"".join(file.read_bytes() for file in sorted(SOURCE.iterdir()))).hexdigest()[:12]
    return cache() / "go" / f"{SOURCE.name}-{digest}" / SOURCE.name


def build() -> None:
    """Build the program, unless it is there. Raises SystemFailedError."""
    path = program()
    if path.exists():
        return
    go = shutil.which("go")
    if go is None:
        raise SystemFailedError(f"no Go to build {SOURCE.relative_to(HERE)} with")
    say(f"building {SOURCE.relative_to(HERE)} with Go")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=path.parent) as temporary:
        built = Path(temporary) / path.name
        run([go, "build", "-o", str(built), "."], folder=SOURCE)
        built.rename(path)
