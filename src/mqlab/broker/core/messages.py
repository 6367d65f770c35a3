"""Messages as the core moves them: batches that are never changed, and spans of their rows."""

from mqlab.wire.bodies import Payload, cut


class Span:
    """Consecutive messages of one batch on one queue: `rows` of `payload` from `start` on.

    Their ids on that queue run from `first_id`. `persistent` says what the producer asked for.
    """

    __slots__ = ("first_id", "payload", "persistent", "redelivered", "rows", "size", "start")

    def __init__(
        self, payload: Payload, first_id: int, *, persistent: bool, start: int = 0, rows: int = -1,
        redelivered: bool = False,
    ) -> None:
        self.payload = payload
        self.first_id = first_id
        self.persistent = persistent
        self.start = start
        self.rows = payload.rows if rows < 0 else rows
        self.redelivered = redelivered
        # Its share of the payload's bytes; the shares of all parts of a payload add up to it exactly.
        whole = len(payload.data)
        self.size = (
            whole if self.rows == payload.rows
            else whole * (start + self.rows) // payload.rows - whole * start // payload.rows
        )  # fmt: skip

    def encoded(self) -> Payload:
        return cut(self.payload, self.start, self.rows)

    def split(self, rows: int) -> "tuple[Span, Span]":
        """Its first `rows` messages, and the others."""
        assert 0 < rows < self.rows
        return (
            Span(self.payload, self.first_id, persistent=self.persistent, start=self.start, rows=rows,
                 redelivered=self.redelivered),
            Span(self.payload, self.first_id + rows, persistent=self.persistent, start=self.start + rows,
                 rows=self.rows - rows, redelivered=self.redelivered),
        )  # fmt: skip

    def __repr__(self) -> str:
        mark = " redelivered" if self.redelivered else ""
        return f"Span({self.first_id}..{self.first_id + self.rows - 1}{mark})"
