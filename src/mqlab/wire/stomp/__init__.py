"""STOMP 1.0, 1.1 and 1.2 without a socket: `frames` one at a time, `splitting` a stream, `runs` many equal at once."""

from mqlab.wire.stomp.frames import VERSIONS, Frame, StompError, encode, encode_head, escape, unescape
from mqlab.wire.stomp.pasting import decimals, encode_batch, equal_widths, paste
from mqlab.wire.stomp.runs import Run
from mqlab.wire.stomp.splitting import Limits, Splitter

__all__ = [
    "VERSIONS",
    "Frame",
    "Limits",
    "Run",
    "Splitter",
    "StompError",
    "decimals",
    "encode",
    "encode_batch",
    "encode_head",
    "equal_widths",
    "escape",
    "paste",
    "unescape",
]
