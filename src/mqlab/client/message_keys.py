"""The frame that asks for one message by its message id."""

import re
from typing import Final

from mqlab.client.message import ID_PREFIX
from mqlab.wire.native.frames import Flag, Frame, Kind

_RECEIVE: Final = int(Kind.RECEIVE)
_MESSAGE_ID: Final = re.compile(ID_PREFIX + "[0-9a-fA-F]{32}", re.ASCII)


def receive_frame(link: int, correlation_id: str | None, message_id: str) -> Frame:
    """Raises ValueError for a malformed message id, and if a correlation id is given as well."""
    if correlation_id is not None:
        raise ValueError("give a message id or a correlation id, not both")
    if _MESSAGE_ID.fullmatch(message_id) is None:
        raise ValueError(f"{message_id[:80]!r} is not a message id: {ID_PREFIX} and 32 hexadecimal digits")
    value = bytes.fromhex(message_id.removeprefix(ID_PREFIX))
    return Frame(_RECEIVE, int(Flag.SINGLE), 0, link, 0, 0, value)
