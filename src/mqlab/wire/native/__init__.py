"""The native protocol of the embedded broker: frames, and the payloads that they carry."""

from mqlab.wire.native.frames import (
    FORM,
    HEADER,
    HEADER_SIZE,
    VERSION,
    Flag,
    Frame,
    FrameDecoder,
    Kind,
    ProtocolError,
    frame,
    header,
)

__all__ = [
    "FORM",
    "HEADER",
    "HEADER_SIZE",
    "VERSION",
    "Flag",
    "Frame",
    "FrameDecoder",
    "Kind",
    "ProtocolError",
    "frame",
    "header",
]
