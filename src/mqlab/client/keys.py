"""Asking for one message by its message id or its correlation id."""

import re
from typing import Final

from mqlab.client.message import ID_PREFIX
from mqlab.wire.native import Flag, Frame, Kind

_RECEIVE: Final = int(Kind.RECEIVE)
_MESSAGE_ID: Final = re.compile(ID_PREFIX + "[0-9a-fA-F]{32}", re.ASCII)


def asking_for(link: int, correlation_id: str | None, message_id: str | None) -> Frame:
    """The frame that says it. Raises ValueError unless it is one of them, and could be an id."""
    if message_id is None:
        value, flags = str(correlation_id).encode(), 0
    elif correlation_id is not None:
        raise ValueError("a message id or a correlation id: say one of them")
    elif _MESSAGE_ID.fullmatch(message_id) is None:
        raise ValueError(f"{message_id[:80]!r} is no message id: {ID_PREFIX} and 32 hexadecimal digits")
    else:
        value, flags = bytes.fromhex(message_id.removeprefix(ID_PREFIX)), int(Flag.LONE)
    return Frame(_RECEIVE, flags, 0, link, 0, 0, value)
