"""The null server of NATS, as core NATS without a store."""

import asyncio
import json
import re

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire.equal_frames import FrameTemplate
from mqlab.wire.nats import PING, PONG

_INFO = {"server_name": "null", "version": "2.10.0", "proto": 1, "headers": True, "max_payload": 64 * 1024 * 1024}
_SUBSCRIBE = re.compile(rb"^SUB (\S+) (?:\S+ )?(\S+)\r$", re.MULTILINE)
# Inboxes for replies get nothing.
_INBOX = b"_INBOX."


class NatsNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        super().__init__(size, batch)
        self._rest = b""
        self._messages = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(b"INFO " + json.dumps(_INFO).encode() + b"\r\n")

    def received(self, data: memoryview) -> None:
        """Only what must be answered is looked for: a message that looks like a question is answered too."""
        seen = self._rest + bytes(data)
        self.write(PONG * seen.count(PING))
        # A look at the bytes alone first: the pattern takes longer than all the rest.
        if not self._messages and b"SUB " in seen:
            for subject, sid in _SUBSCRIBE.findall(seen):
                if not subject.startswith(_INBOX):
                    head = b"MSG %s %s %d\r\n" % (subject, sid, self.size)
                    self._messages = FrameTemplate(head, b"\r\n", self.size).filled(self.bodies)
        last = seen.rfind(b"\n")
        # A line that is not whole yet, if it can be one of those that are looked for.
        self._rest = seen[last + 1 :] if len(seen) - last < 1024 else b""

    def more(self) -> bytes | None:
        return self._messages or None
