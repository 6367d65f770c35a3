"""STOMP 1.0, 1.1 and 1.2: `frames` encodes one frame, `decoder` decodes a stream, `runs` decodes many equal frames."""

from mqlab.wire.stomp.batch_encoder import decimals, equal_widths, paste
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import VERSIONS, StompError, StompFrame, encode, encode_head, escape, unescape
from mqlab.wire.stomp.runs import FrameRun

__all__ = [
    "VERSIONS",
    "FrameRun",
    "Limits",
    "StompError",
    "StompFrame",
    "StompFrameDecoder",
    "decimals",
    "encode",
    "encode_head",
    "equal_widths",
    "escape",
    "paste",
    "unescape",
]
