"""Frames for the broker's own connection, put together until they are handed over."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from mqlab.broker.core.errors import RefusedError
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import Frame, Kind

JsonObject = dict[str, Any]


class NativeCommands:
    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._links = 0
        # What to do with the answer to a question, and the receipts that wait for it, by its number.
        self._questions: dict[int, tuple[Callable[[JsonObject], None], Sequence[str]]] = {}
        self._asked = 0

    def taken(self) -> list[Frame]:
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

    def say(self, kind: Kind, said: JsonObject, *, session: int = 0, link: int = 0, amount: int = 0) -> None:
        self.add(kind, json.dumps(said).encode(), session=session, link=link, amount=amount)

    def ask(self, question: JsonObject, then: Callable[[JsonObject], None], receipts: Sequence[str] = ()) -> None:
        self._asked += 1
        self._questions[self._asked] = then, receipts
        self.add(Kind.ASK, json.dumps(question).encode(), first=self._asked)

    def receipts_of(self, answer: Frame) -> Sequence[str]:
        return self._questions[answer.first][1]

    def answered(self, frame: Frame) -> None:
        """Raises RefusedError if that is the answer."""
        said = frame.json()
        then, _ = self._questions.pop(frame.first)
        if "error" in said:
            raise RefusedError(str(said["error"]))
        then(said)
