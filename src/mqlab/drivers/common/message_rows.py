"""Properties and headers message by message, for protocols that encode each message by itself."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from mqlab.drivers.api import MessageHeaders, Properties


class MessageFields(NamedTuple):
    """The properties and headers of one message; None: the default of the system."""

    properties: Mapping[str, int | str]
    priority: int | None = None
    key: str | None = None


def message_rows(count: int, properties: Properties | None, headers: MessageHeaders | None) -> list[MessageFields]:
    columns = {name: values.tolist() for name, values in (properties or {}).items()}
    rows = zip(*columns.values(), strict=True) if columns else repeat((), count)
    values = [dict(zip(columns, row, strict=True)) for row in rows]
    priorities: Sequence[int | None] = [None] * count
    keys: Sequence[str | None] = [None] * count
    if headers is not None and headers.priority is not None:
        priorities = headers.priority.tolist()
    if headers is not None and headers.key is not None:
        keys = headers.key.tolist()
    return [MessageFields(*row) for row in zip(values, priorities, keys, strict=True)]


def expires_ms(headers: MessageHeaders | None) -> int:
    """Milliseconds after which the messages expire; 0: never."""
    return 0 if headers is None or headers.expires_s is None else max(1, round(headers.expires_s * 1000))
