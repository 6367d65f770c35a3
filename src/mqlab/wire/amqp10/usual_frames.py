"""Reads transfers and dispositions in the form that clients usually write: each message has one of either.

`test_transfers_are_read_as_other_performatives_are` proves that the decoder for all performatives has the same results,
and `test_dispositions_are_read_as_other_performatives_are`.
"""

import struct
from typing import Final

# A described list with sizes of one byte, whose code is that of a transfer.
_HEAD: Final = b"\0\x53\x14\xc0"
# The same of a disposition.
_DISPOSITION: Final = b"\0\x53\x15\xc0"
_ZERO, _SMALL_UINT, _UINT, _BINARY = 0x43, 0x52, 0x70, 0xA0
_NULL, _TRUE, _FALSE = 0x40, 0x41, 0x42
_u32: Final = struct.Struct(">I").unpack_from

# Handle, delivery id, delivery tag, the encoded further fields and their number, and the offset of the payload.
TransferFields = tuple[int, int, bytes, bytes, int, int]
# Role, first, last, the encoded further fields and their number.
DispositionFields = tuple[bool, int, int | None, bytes, int]


def read_usual_transfer(body: bytes) -> TransferFields | None:
    """None if the frame is none, or is written in another way."""
    if not body.startswith(_HEAD):
        return None
    try:
        end, count, code, at = 5 + body[4], body[5], body[6], 7
        if code == _SMALL_UINT:
            handle, at = body[7], 8
        elif code == _ZERO:
            handle = 0
        else:
            return None
        delivery, at = _uint(body, at)
        if delivery is None or body[at] != _BINARY:
            return None
        tag_end = at + 2 + body[at + 1]
    except (IndexError, struct.error):
        return None
    if tag_end > end or end > len(body):
        return None
    return handle, delivery, body[at + 2 : tag_end], body[tag_end:end], count - 3, end


def read_usual_disposition(body: bytes) -> DispositionFields | None:
    """None if the frame is none, or is written in another way."""
    if not body.startswith(_DISPOSITION):
        return None
    try:
        end, count, role = 5 + body[4], body[5], body[6]
        first, at = _uint(body, 7)
        has_last = body[at] != _NULL
        last, at = _uint(body, at) if has_last else (None, at + 1)
    except (IndexError, struct.error):
        return None
    if role not in (_TRUE, _FALSE) or first is None or (has_last and last is None) or at > end or end != len(body):
        return None
    return role == _TRUE, first, last, body[at:end], count - 3


def _uint(body: bytes, at: int) -> tuple[int | None, int]:
    """The number that begins there, None if there is another value; and the offset after it."""
    code = body[at]
    if code == _UINT:
        return _u32(body, at + 1)[0], at + 5
    if code == _SMALL_UINT:
        return body[at + 1], at + 2
    return (0, at + 1) if code == _ZERO else (None, at)
