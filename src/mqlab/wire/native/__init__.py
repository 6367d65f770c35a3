"""The native protocol of the embedded broker: frames, and the payloads that they carry."""

from mqlab.wire.native.frames import (
    FORM,
    HEADER,
    HEADER_SIZE,
    VERSION,
    Flag,
    Frame,
    Kind,
    ProtocolError,
    Receiver,
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
    "Kind",
    "ProtocolError",
    "Receiver",
    "frame",
    "header",
]
