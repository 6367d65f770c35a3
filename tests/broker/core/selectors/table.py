"""One table of random messages, for selectors and for two databases."""

import random
import sqlite3
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from .expressions import APPROXIMATE, BOOLEANS, EXACT, NEVER, STRINGS, WORDS

ROWS = 60

ARROW = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(), "f32": pa.float32(), "f64": pa.float64(),
    "s": pa.string(), "t": pa.string(), "b": pa.bool_(), "c": pa.bool_(),
}  # fmt: skip
_SQLITE = {"number": "INTEGER", "double": "REAL", "string": "TEXT", "boolean": "INTEGER"}
_SPARK = {"number": "bigint", "double": "double", "string": "string", "boolean": "boolean"}
KINDS = {
    **dict.fromkeys(EXACT, "number"), **dict.fromkeys(APPROXIMATE, "double"), **dict.fromkeys(STRINGS, "string"),
    **dict.fromkeys(BOOLEANS, "boolean"), **NEVER,
}  # fmt: skip


def messages(seed: int) -> dict[str, list[object]]:
    """A sixth of all values are missing; the others are few, so that equal ones meet."""
    chance = random.Random(seed)
    values: dict[str, Callable[[], object]] = {
        "number": lambda: chance.randint(-20, 20),
        # Quarters are exact in a float too.
        "double": lambda: chance.randint(-40, 40) / 4,
        "string": lambda: chance.choice(WORDS),
        "boolean": lambda: chance.random() < 0.5,
    }
    return {
        name: [None if name in NEVER or chance.random() < 1 / 6 else values[kind]() for _ in range(ROWS)]
        for name, kind in KINDS.items()
    }


def arrow(table: dict[str, list[object]]) -> dict[str, pa.Array]:
    """Without the columns that no message has."""
    return {name: pa.array(table[name], kind) for name, kind in ARROW.items()}


def sqlite(table: dict[str, list[object]]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = ON")
    connection.execute(f"CREATE TABLE messages ({', '.join(f'{name} {_SQLITE[KINDS[name]]}' for name in table)})")
    places = ", ".join("?" * len(table))
    connection.executemany(f"INSERT INTO messages VALUES ({places})", zip(*table.values(), strict=True))
    return connection


def spark_table(session: SparkSession, table: dict[str, list[object]]) -> DataFrame:
    schema = ", ".join(f"{name} {_SPARK[KINDS[name]]}" for name in table)
    return session.createDataFrame([*zip(*table.values(), strict=True)], schema).coalesce(1).cache()
