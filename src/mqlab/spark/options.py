"""The options of the format `mqlab`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from mqlab.client import Connection, connect
from mqlab.errors import MqlabError

# Options that Spark reads itself, and passes on.
_OF_SPARK: Final = ("checkpointlocation", "path")


class StreamOptionError(MqlabError, ValueError):
    """An option or a column of the format `mqlab` is wrong."""


@dataclass(frozen=True)
class StreamOptions:
    """`destination` is `queue:NAME` or `topic:NAME`. A source: `name` belongs to one checkpoint, and is part of the
    names of the queues that hold its batches; `max_messages` is the most in a batch. A sink: `persistent`.
    """

    destination: str
    address: str = "tcp:127.0.0.1:7766"
    user: str = ""
    password: str = ""
    ca: str = ""
    name: str = ""
    max_messages: int = 10_000
    persistent: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "StreamOptions":
        """Raises StreamOptionError."""
        known = {field.name for field in fields(cls)}
        own = {name.lower(): value for name, value in options.items() if name.lower() not in _OF_SPARK}
        for option in own:
            if option not in known:
                raise StreamOptionError(f"{option}: the format mqlab has the options {', '.join(sorted(known))}")
        kind, _, short = own.get("destination", "").partition(":")
        if kind not in ("queue", "topic") or not short:
            raise StreamOptionError("destination: write queue:NAME or topic:NAME")
        values: dict[str, str | int | bool] = {"name": short, **own}
        if "max_messages" in values:
            values["max_messages"] = _positive("max_messages", str(values["max_messages"]))
        if "persistent" in values:
            values["persistent"] = _boolean("persistent", str(values["persistent"]))
        return cls(**values)  # type: ignore[arg-type]  # checked above, by name

    @property
    def is_queue(self) -> bool:
        return self.destination.startswith("queue:")

    def connect(self, client_id: str = "") -> Connection:
        return connect(
            self.address, client_id=client_id, user=self.user, password=self.password,
            ca=Path(self.ca) if self.ca else None, application=f"spark {self.name}",
        )  # fmt: skip


def _positive(option: str, text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise StreamOptionError(f"{option}: {text!r} is not a positive number")
    return int(text)


def _boolean(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise StreamOptionError(f"{option}: write true or false, not {text!r}")
    return text.lower() == "true"
