"""A disk for payloads that are taken out of memory, made of a list."""

from mqlab.broker.core.model.messages import PayloadOnDisk
from mqlab.wire.native.bodies import Payload

from .commands import Driven


class Paper:
    """Stands for a payload on disk."""

    def __init__(self, payload: Payload, loads: list[int]) -> None:
        self._payload = payload
        self._loads = loads
        self.rows = payload.rows
        self.size = len(payload.data)

    def load(self) -> Payload:
        self._loads.append(self.rows)
        return self._payload


class Disk:
    """Takes payloads, unless it is full."""

    def __init__(self, driven: Driven) -> None:
        self.pages: list[Payload] = []
        self.loads: list[int] = []
        self.full = False
        driven.core.context.page_out = self.page_out

    def page_out(self, payload: Payload) -> PayloadOnDisk | None:
        if self.full:
            return None
        self.pages.append(payload)
        return Paper(payload, self.loads)
