"""The null server of NATS: core NATS, without JetStream."""

import asyncio
import json
import re

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire.equal_frames import FrameTemplate
from mqlab.wire.nats import PING, PONG

_INFO = {"server_name": "null", "version": "2.10.0", "proto": 1, "headers": True, "max_payload": 64 * 1024 * 1024}
_SUBSCRIBE = re.compile(rb"^SUB (\S+) (?:\S+ )?(\S+)\r$", re.MULTILINE)
# Subscriptions to reply inboxes get no messages.
_INBOX = b"_INBOX."


class NatsNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        super().__init__(size, batch)
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(b"INFO " + json.dumps(_INFO).encode() + b"\r\n")

    def handle_data(self, data: memoryview) -> None:
        """Look for PING and SUB only. A body that contains one of them is answered too, which does no harm."""
        unparsed = self._rest + bytes(data)
        self.write(PONG * unparsed.count(PING))
        # The plain search first: the pattern takes longer than everything else here.
        if not self._messages and b"SUB " in unparsed:
            for subject, sid in _SUBSCRIBE.findall(unparsed):
                if not subject.startswith(_INBOX):
                    head = b"MSG %s %s %d\r\n" % (subject, sid, self.size)
                    self._messages = FrameTemplate(head, b"\r\n", self.size).filled(self.bodies)
        last = unparsed.rfind(b"\n")
        # An incomplete line, unless it is too long for a PING or SUB.
        self._rest = unparsed[last + 1 :] if len(unparsed) - last < 1024 else b""
