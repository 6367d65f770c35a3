"""Starts the broker of a test, and stops it."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from mqlab.testing.fixture_broker import FixtureBroker

_HOST: Final = "127.0.0.1"
# Data is stored, as JMS sends persistent messages, but not synced: no test needs it after a power failure.
_DEFAULTS: Final = {"sync": "off", "segment_size": 1 << 20, "preallocate": False}

_numbers = count(1)


@contextmanager
def running_broker(*, process: bool = False, **settings: Any) -> Iterator[FixtureBroker]:
    """A broker on a free port, with an empty data folder unless the settings name one (`data`; None: none).

    `settings`: those of `docs/broker.md`. Raises SettingError and OSError.
    """
    with ExitStack() as parts:
        if "data" not in settings:
            settings["data"] = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="mqlab-broker-")))
        chosen = {
            **_DEFAULTS, "name": f"test-{next(_numbers)}", "listen": (f"tcp:{_HOST}:0",), **settings,
        }  # fmt: skip
        if process:
            from mqlab.testing.forked import forked

            yield FixtureBroker(_HOST, parts.enter_context(forked(chosen)))
        else:
            # Imported when it is needed: a broker in another process needs no broker in this one.
            from mqlab.testing.in_process import in_process

            yield FixtureBroker(_HOST, parts.enter_context(in_process(chosen)))
