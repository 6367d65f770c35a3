"""The null server of Redis: it answers commands as Redis does; queue streams are endless, and nothing is kept.

A receiver of a topic reads a stream beside its subscription: that stream stays empty.
"""

import itertools
import re
from typing import ClassVar, Final

import numpy as np

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire import resp
from mqlab.wire.equal_frames import count_equal_frames

_WORD: Final = re.compile(rb"\$(\d+)\r\n")
_COUNT: Final = re.compile(rb"\*(\d+)\r\n")
# Answers to commands; any other command gets the number 1.
_ANSWERS: Final = {
    b"CLIENT SETNAME": b"+OK\r\n", b"XGROUP CREATE": b"+OK\r\n", b"EXISTS": b":0\r\n", b"SPOP": b"*0\r\n",
    b"XREVRANGE": b"*0\r\n", b"XADD": b"$15\r\n1526919030474-0\r\n",
}  # fmt: skip
_NO_ENTRIES: Final = b"*-1\r\n"


class RedisNullServer(NullServer):
    domains_differ = True
    # Connections blocked in XREAD, by client id: another connection unblocks them.
    _blocked: ClassVar[dict[bytes, "RedisNullServer"]] = {}
    _client_ids: ClassVar["itertools.count[int]"] = itertools.count(1)

    def __init__(self, size: int, batch: int) -> None:
        super().__init__(size, batch)
        self._client_id = b"%d" % next(self._client_ids)
        self._rest = b""
        self._entries: dict[tuple[bytes, int], bytes] = {}

    def handle_data(self, data: memoryview) -> None:
        unparsed = self._rest + bytes(data)
        table, at, answers = np.frombuffer(unparsed, dtype=np.uint8), 0, []
        while (command := _command(unparsed, at)) is not None:
            words, body_at, end = command
            rows = 1
            if words[0] in (b"XADD", b"PUBLISH"):
                # A driver sends long runs of commands that differ only in the body.
                rows = count_equal_frames(table, at, body_at - at, end - body_at - 2, 2)
            answers.append(self._answer(words) * rows)
            at += rows * (end - at)
        self._rest = unparsed[at:]
        self.write(b"".join(answers))

    def _answer(self, words: list[bytes]) -> bytes:
        name = words[0]
        known = _ANSWERS.get(name) or _ANSWERS.get(b" ".join(words[:2]))
        if known is not None:
            return known
        if name == b"SUBSCRIBE":
            self._messages = resp.template(b"message", words[1], size=self.size).filled(self.bodies)
            return b"*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n" % (len(words[1]), words[1])
        if name == b"XREADGROUP":
            return self._read(words[-2], int(words[words.index(b"COUNT") + 1]))
        if name == b"XREAD":
            self._blocked[self._client_id] = self
            return b""
        if words[:2] == [b"CLIENT", b"ID"]:
            return b":%s\r\n" % self._client_id
        if words[:2] == [b"CLIENT", b"UNBLOCK"] and (blocked := self._blocked.pop(words[2], None)) is not None:
            blocked.write(_NO_ENTRIES)
        return b":1\r\n"

    def _read(self, key: bytes, count: int) -> bytes:
        """Return `count` entries, at most a batch of them."""
        rows = min(count, self.batch)
        if (key, rows) not in self._entries:
            entries = [
                b"*2\r\n%s*2\r\n$1\r\nb\r\n%s" % (_string(b"1526919030474-%d" % at), _string(body.tobytes()))
                for at, body in enumerate(self.bodies[:rows])
            ]
            self._entries[key, rows] = b"*1\r\n*2\r\n%s*%d\r\n%s" % (_string(key), rows, b"".join(entries))
        return self._entries[key, rows]


def _string(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


def _command(data: bytes, at: int) -> tuple[list[bytes], int, int] | None:
    """Return the words of the command at `at`, the start of the last word and the end; None if incomplete."""
    count = _COUNT.match(data, at)
    if count is None:
        return None
    words, end, begin = [], count.end(), at
    for _ in range(int(count[1])):
        size = _WORD.match(data, end)
        if size is None:
            return None
        begin = size.end()
        end = begin + int(size[1]) + 2
        if end > len(data):
            return None
        words.append(data[begin : end - 2])
    return words, begin, end
