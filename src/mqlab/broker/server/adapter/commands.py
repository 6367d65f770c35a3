"""Collects native frames until the connection of a protocol hands them to its native connection."""

import json
from collections.abc import Callable, Sequence

from mqlab.broker.core.errors import CommandError
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import Frame, Kind


class NativeCommands:
    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._links = 0
        # By the number of an admin request: the callback for its answer, and the ids of the client that wait for it.
        self._requests: dict[int, tuple[Callable[[JsonObject], None], Sequence[str]]] = {}
        self._last_request = 0

    def take(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def new_link(self) -> int:
        self._links += 1
        return self._links

    def add(
        self, kind: Kind, payload: Buffer = b"", *, flags: int = 0, session: int = 0, link: int = 0, first: int = 0,
        amount: int = 0,
    ) -> None:  # fmt: skip
        self._frames.append(Frame(kind, flags, session, link, first, amount, payload))

    def add_json(self, kind: Kind, document: JsonObject, *, session: int = 0, link: int = 0, amount: int = 0) -> None:
        self.add(kind, json.dumps(document).encode(), session=session, link=link, amount=amount)

    def request(self, fields: JsonObject, then: Callable[[JsonObject], None], waiting: Sequence[str] = ()) -> None:
        self._last_request += 1
        self._requests[self._last_request] = then, waiting
        self.add(Kind.ASK, json.dumps(fields).encode(), first=self._last_request)

    def waiting_for(self, frame: Frame) -> Sequence[str]:
        return self._requests[frame.first][1]

    def answered(self, frame: Frame) -> None:
        """Call the callback of the request. Raises CommandError if the broker refused it."""
        answer = frame.json()
        then, _ = self._requests.pop(frame.first)
        if "error" in answer:
            raise CommandError(str(answer["error"]))
        then(answer)
