"""The folder of what the lab gets or makes once, and can get or make again."""

import os
from pathlib import Path


def cache() -> Path:
    """MQLAB_CACHE, else in the user's cache folder."""
    chosen = os.environ.get("MQLAB_CACHE")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "mqlab"
