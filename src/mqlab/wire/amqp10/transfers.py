"""Reads transfers in the form that clients usually write: of a frame for each message, most of the work is this one.

`test_transfers_are_read_as_other_performatives_are` proves that the decoder for all performatives has the same results.
"""

import struct
from typing import Final

# A described list with sizes of one byte, whose code is that of a transfer.
_HEAD: Final = b"\0\x53\x14\xc0"
_ZERO, _SMALL_UINT, _UINT, _BINARY = 0x43, 0x52, 0x70, 0xA0
_u32: Final = struct.Struct(">I").unpack_from

# Handle, delivery id, delivery tag, the encoded further fields and their number, and the offset of the payload.
TransferFields = tuple[int, int, bytes, bytes, int, int]


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
        code = body[at]
        if code == _UINT:
            delivery, at = _u32(body, at + 1)[0], at + 5
        elif code == _SMALL_UINT:
            delivery, at = body[at + 1], at + 2
        elif code == _ZERO:
            delivery, at = 0, at + 1
        else:
            return None
        if body[at] != _BINARY:
            return None
        tag_end = at + 2 + body[at + 1]
    except (IndexError, struct.error):
        return None
    if tag_end > end or end > len(body):
        return None
    return handle, delivery, body[at + 2 : tag_end], body[tag_end:end], count - 3, end
