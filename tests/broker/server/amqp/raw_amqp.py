"""An AMQP client that sends any frame, and reads the broker's frames one by one."""

import socket
from types import TracebackType
from typing import Any, Self

from mqlab.wire.amqp10.encoder import encode
from mqlab.wire.amqp10.frames import AMQP_HEADER, HEADER_BYTES, SASL_FRAME, SASL_HEADER, AmqpFrameDecoder, frame
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Disposition,
    End,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    composite,
    encode_performative,
    parse,
    read_performative,
    symbols,
)
from mqlab.wire.amqp10.types import AmqpValue, Symbol

# Long enough for a machine that does much else.
SECONDS = 60


class RawAmqp:
    def __init__(self, port: int, peer: socket.socket | None = None) -> None:
        self.socket = peer or socket.create_connection(("127.0.0.1", port), SECONDS)
        self.socket.settimeout(SECONDS)
        self._decoder = AmqpFrameDecoder(1 << 30)
        self._frames: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    # Handshake

    def header(self, header: bytes = AMQP_HEADER) -> bytes:
        self.socket.sendall(header)
        return self.read_bytes(HEADER_BYTES)

    def read_bytes(self, count: int) -> bytes:
        data = b""
        while len(data) < count and (part := self.socket.recv(count - len(data))):
            data += part
        return data

    def log_in(self, mechanism: str, response: bytes | None = None) -> int:
        """The code of the outcome."""
        assert self.header(SASL_HEADER) == SASL_HEADER
        assert mechanism in symbols(self.expect(SaslMechanisms).mechanisms) or response == b"not offered"
        self.send_sasl(SaslInit(Symbol(mechanism), response))
        return int(self.expect(SaslOutcome).code)

    def send_sasl(self, performative: tuple[Any, ...]) -> None:
        self.socket.sendall(frame(0, encode_performative(performative), SASL_FRAME))

    def open(self, **fields: Any) -> Open:
        assert self.header() == AMQP_HEADER
        self.send(Open(**{"container_id": "raw", **fields}))
        opened: Open = self.expect(Open)
        return opened

    def begin(self, channel: int = 0, window: int = 1000) -> Begin:
        self.send(Begin(None, 0, window, 1000), channel)
        begun: Begin = self.expect(Begin)
        return begun

    def sender(self, address: str, handle: int = 0) -> Attach:
        self.send(Attach(f"s{handle}", handle, False, source=composite(Source()), target=composite(Target(address)),
                         initial_delivery_count=0))  # fmt: skip
        attached: Attach = self.expect(Attach)
        return attached

    def receiver(self, address: str, handle: int = 0) -> Attach:
        self.send(Attach(f"r{handle}", handle, True, source=composite(Source(address)), target=composite(Target())))
        attached: Attach = self.expect(Attach)
        return attached

    # Frames

    def send(self, performative: tuple[Any, ...], channel: int = 0, payload: bytes = b"") -> None:
        self.socket.sendall(frame(channel, encode_performative(performative) + payload))

    def read(self) -> Any:
        """The next performative of the broker; None if it has closed the connection."""
        while True:
            one = self._decoder.take_frame()
            if one is not None:
                if one.body:
                    return read_performative(one.body)[0]
                continue
            data = self.socket.recv(65536)
            if not data:
                return None
            self._decoder.feed(data)

    def expect(self, kind: type) -> Any:
        """The next performative of this kind; others before it are skipped."""
        while (performative := self.read()) is not None:
            if isinstance(performative, kind):
                return performative
        raise AssertionError(f"the broker closed the connection before {kind.__name__}")

    def settled_before(self, kind: type) -> list[int]:
        """The ids of the client's deliveries that the broker settles before the next performative of this kind."""
        settled: list[int] = []
        while (performative := self.read()) is not None:
            if isinstance(performative, kind):
                return settled
            if isinstance(performative, Disposition) and performative.settled:
                last = performative.first if performative.last is None else performative.last
                settled += range(performative.first, last + 1)
        raise AssertionError(f"the broker closed the connection before {kind.__name__}")

    def error(self, kind: type) -> str:
        """The condition in the next performative of this kind."""
        return str(parse(self.expect(kind).error).condition)

    def closed_with(self) -> str:
        """The condition of the broker's close; the connection ends after it."""
        condition = self.error(Close)
        assert self.read() is None
        return condition

    def ended_with(self) -> str:
        return self.error(End)


def message(body: AmqpValue = b"x") -> bytes:
    """An encoded message: a data section for bytes, else a value."""
    return bytes((0, 0x53, 0x75 if isinstance(body, bytes) else 0x77)) + encode(body)
