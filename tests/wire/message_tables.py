"""Messages as rows of a table: a simple model of payloads with columns, and strategies for such tables."""

from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.columns import HEADERS, decode_batch, encode_columns, encode_single, is_property_name
from table_rows import Row

ARROW = {
    "?": pa.bool_(), "b": pa.int8(), "h": pa.int16(), "i": pa.int32(), "q": pa.int64(), "f": pa.float32(),
    "d": pa.float64(), "s": pa.string(), "u": pa.binary(16),
}  # fmt: skip
VALUES: dict[str, st.SearchStrategy[object]] = {
    "?": st.booleans(), "b": st.integers(-(2**7), 2**7 - 1), "h": st.integers(-(2**15), 2**15 - 1),
    "i": st.integers(-(2**31), 2**31 - 1), "q": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(width=32, allow_nan=False), "d": st.floats(allow_nan=False), "s": st.text(max_size=9),
    "u": st.binary(min_size=16, max_size=16),
}  # fmt: skip

property_names = st.text(st.sampled_from("aZ_$é名Ω0"), min_size=1, max_size=6).filter(is_property_name)
headers = st.sampled_from(sorted(HEADERS.items()))
properties = st.tuples(property_names.map(lambda name: "." + name), st.sampled_from("?bhiqfds"))


@dataclass(frozen=True)
class Table:
    """Columns by name, each with the letter of its type, and rows that have a body and some of them."""

    letters: dict[str, str]
    rows: list[Row]

    def payload(self) -> Payload:
        bodies = pa.array([row["body"] for row in self.rows], pa.binary())
        arrays = {
            name: pa.array([row.get(name) for row in self.rows], ARROW[letter]) for name, letter in self.letters.items()
        }
        return encode_columns(bodies, arrays)

    def single(self, row: int) -> Payload:
        values = {name: self.rows[row][name] for name in self.letters if name in self.rows[row]}
        letters = "".join(self.letters[name] for name in values)
        return encode_single(self.rows[row]["body"], tuple(values), letters, list(values.values()))


@st.composite
def tables(draw: st.DrawFn, most_rows: int = 8) -> Table:
    letters = dict(draw(st.lists(headers | properties, max_size=6)))
    rows = []
    for body in draw(st.lists(st.binary(max_size=12), min_size=1, max_size=most_rows)):
        values = {name: draw(st.none() | VALUES[letter]) for name, letter in letters.items()}
        rows.append({"body": body} | {name: value for name, value in values.items() if value is not None})
    return Table(letters, rows)


def rows_of(payload: Payload) -> list[Row]:
    """What is in a payload, without the values that a row has not."""
    return [
        {name: value for name, value in row.items() if value is not None} for row in decode_batch(payload).to_pylist()
    ]


# A column of every type, with and without values, and a row that has them all.
EVERY_TYPE = Table(
    dict(HEADERS) | {f".{letter}$": letter for letter in "bhiqfds"} | {".known": "?"},
    [
        {"body": b"first", "id": bytes(range(16)), "priority": 9, "correlation_id": "grün", ".s$": "", ".known": True},
        {"body": b""},
        {
            "body": b"third" * 5, "id": b"\xff" * 16, "timestamp": 2**63 - 1, "correlation_id": "c",
            "reply_to": "queue:a", "type": "t", "priority": 0, "expiration": 1, "deliver_at": 2, "group": "g",
            "duplicate_id": "名", ".b$": -128, ".h$": 32767, ".i$": -(2**31), ".q$": -(2**63), ".f$": 0.5, ".d$": 1e300,
            ".s$": "text", ".known": False,
        },
    ],
)  # fmt: skip
