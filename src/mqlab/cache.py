"""The folder for downloads and build results, which the lab can fetch or build again."""

import os
from pathlib import Path


def cache() -> Path:
    """The folder that MQLAB_CACHE names, else one in the user's cache folder."""
    chosen = os.environ.get("MQLAB_CACHE")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "mqlab"
