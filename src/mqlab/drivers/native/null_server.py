"""The null server of the embedded broker's native protocol."""

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode_equal
from mqlab.wire.native.frames import Flag, Frame, Kind

_MAX_FRAME_BYTES = 64 * 1024 * 1024
_PRODUCER_CREDIT_BYTES = 64 * 1024 * 1024
_ANSWERS = {Kind.CLOSE: Kind.CLOSED, Kind.COMMIT: Kind.COMMITTED, Kind.ROLLBACK: Kind.ROLLED_BACK}


class NativeNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        super().__init__(size, batch)
        self._receiver = native.FrameDecoder(_MAX_FRAME_BYTES)
        payload = encode_equal(self.bodies.reshape(-1), batch)
        self._data, self._form = bytes(payload.data), payload.form
        # The credit of each consumer, and the number of its next delivery.
        self._credit: dict[int, int] = {}
        self._next: dict[int, int] = {}

    def handle_data(self, data: memoryview) -> None:
        for frame in self._receiver.feed(data):
            self._answer(frame)

    def next_messages(self) -> bytes | None:
        for link, credit in self._credit.items():
            if credit >= self.batch:
                first = self._next[link]
                self._credit[link], self._next[link] = credit - self.batch, first + self.batch
                head = native.header(
                    Kind.DELIVER, flags=self._form, link=link, first=first, amount=self.batch, length=len(self._data)
                )
                return head + self._data
        return None

    def _answer(self, frame: Frame) -> None:
        kind, session, link = frame.kind, frame.session, frame.link
        if kind == Kind.HELLO:
            self.write(native.frame(Kind.HELLO, {"version": native.VERSION, "broker": "null"}))
        elif kind == Kind.SEND:
            confirmed = b""
            if frame.flags & Flag.CONFIRM:
                confirmed = native.header(Kind.CONFIRM, link=link, first=frame.first + frame.amount - 1)
            self.write(confirmed + native.header(Kind.CREDIT, link=link, amount=len(frame.payload)))
        elif kind == Kind.ACKNOWLEDGE:
            self._credit[link] = self._credit.get(link, 0) + frame.amount
        elif kind in (Kind.OPEN_SESSION, Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER):
            self.write(native.header(Kind.OPENED, session=session, link=link))
            if kind == Kind.OPEN_PRODUCER:
                self.write(native.header(Kind.CREDIT, link=link, amount=_PRODUCER_CREDIT_BYTES))
            elif kind == Kind.OPEN_CONSUMER:
                self._credit[link], self._next[link] = frame.amount, 1
        elif kind in _ANSWERS:
            self._credit.pop(link, None)
            self.write(native.header(_ANSWERS[Kind(kind)], session=0 if link else session, link=link))
        elif kind == Kind.CANCEL:
            self._credit[link] = 0
            self.write(native.header(Kind.CANCELLED, session=session, link=link))
