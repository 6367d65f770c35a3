"""The null server of STOMP, as the lab's own broker speaks it."""

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire.stomp import (
    FrameRun,
    Limits,
    StompFrame,
    StompFrameDecoder,
    decimals,
    encode,
    encode_head,
    equal_widths,
    paste,
)

_VERSION = "1.2"
_WRITTEN = 64 * 1024
_LIMITS = Limits(body=256 * 1024 * 1024)


class StompNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        # A message is a frame of its own; a broker writes many of them at once all the same.
        super().__init__(size, max(batch, _WRITTEN // size))
        self._splitter = StompFrameDecoder(_LIMITS, "", frozenset(("receipt",)))
        self._messages = b""

    def received(self, data: memoryview) -> None:
        for found in self._splitter.feed_runs(bytes(data)):
            command, headers = found.command, found.headers
            if command == "CONNECT":
                self.write(encode(StompFrame("CONNECTED", {"version": _VERSION, "server": "mqlab/null"}), _VERSION))
                self._splitter.version = _VERSION
            elif command == "SUBSCRIBE":
                self._messages = self._prepared(headers["id"], headers["destination"])
            if "receipt" in headers:
                self.write(_receipts(found))

    def more(self) -> bytes | None:
        return self._messages or None

    def _prepared(self, subscription: str, destination: str) -> bytes:
        numbers = self.bodies[:, 4:12].copy().view("<u8").reshape(-1)
        head = encode_head("MESSAGE", {"subscription": subscription, "destination": destination}, _VERSION)
        end = b"\ncontent-length:%d\n\n" % self.size
        return b"".join(
            paste(stop - start, (
                head, b"message-id:", decimals(numbers[start:stop]), b"\nack:", decimals(numbers[start:stop]), end,
                self.bodies[start:stop], b"\0",
            )) for start, stop in equal_widths(numbers)
        )  # fmt: skip


def _receipts(found: StompFrame | FrameRun) -> bytes:
    asked = found.values("receipt") if isinstance(found, FrameRun) else [found.headers["receipt"]]
    return b"".join(encode(StompFrame("RECEIPT", {"receipt-id": one}), _VERSION) for one in asked)
