"""Random selectors agree with two engines that know nothing of this one: SQLite and Spark SQL.

SQLite takes all of them. Spark, which needs some milliseconds to read and plan each, takes as many as fit into some
seconds, and all of them with MQLAB_TORTURE=1.
"""

import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

from . import table
from .expressions import Expressions, Said
from .selector_outcomes import outcome

SEED = 38
COUNT = 10_000
SPARK_COUNT = COUNT if os.environ.get("MQLAB_TORTURE") == "1" else 2_000
# Spark plans many expressions as one query at little more than the price of reading them.
CHUNK = 500

Outcomes = list[str]


@pytest.fixture(scope="module")
def messages() -> dict[str, list[object]]:
    return table.messages(SEED)


@pytest.fixture(scope="module")
def said() -> list[Said]:
    made = Expressions(SEED)
    return [made.condition() for _ in range(COUNT)]


@pytest.fixture(scope="module")
def ours(said: list[Said], messages: dict[str, list[object]]) -> Outcomes:
    columns = table.arrow(messages)
    return [outcome(one.selector, **columns) for one in said]


def letters(values: Iterable[object]) -> str:
    return "".join("U" if value is None else "T" if value else "F" for value in values)


def disagreements(said: list[Said], ours: Outcomes, theirs: Outcomes) -> list[str]:
    pairs = zip(said, ours, theirs, strict=True)
    return [f"{one.selector}\n    here {mine}\n   there {other}" for one, mine, other in pairs if mine != other]


def check(said: list[Said], ours: Outcomes, theirs: Outcomes) -> None:
    wrong = disagreements(said, ours, theirs)
    assert not wrong, f"{len(wrong)} of {len(said)} with seed {SEED}, the first of them:\n" + "\n".join(wrong[:5])


def test_the_expressions_are_worth_comparing(said: list[Said], ours: Outcomes) -> None:
    """Every outcome is common, and nearly all of them depend on the message."""
    counted = Counter("".join(ours))
    assert min(counted[letter] for letter in "TFU") > COUNT * table.ROWS / 5
    assert sum(len(set(one)) > 1 for one in ours) > COUNT * 0.8
    assert len({one.selector for one in said}) > COUNT * 0.8


def test_sqlite_agrees(said: list[Said], ours: Outcomes, messages: dict[str, list[object]]) -> None:
    theirs: Outcomes = []
    with table.sqlite(messages) as connection:
        for first in range(0, COUNT, CHUNK):
            chunk = ", ".join(f"({one.sqlite})" for one in said[first : first + CHUNK])
            rows = connection.execute(f"SELECT {chunk} FROM messages ORDER BY rowid").fetchall()
            theirs += [letters(column) for column in zip(*rows, strict=True)]
    connection.close()
    check(said, ours, theirs)


def test_spark_agrees(spark: SparkSession, said: list[Said], ours: Outcomes, messages: dict[str, list[object]]) -> None:
    session = spark.newSession()
    # Each expression sees sixty rows once: to compile it takes far longer than to interpret it.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    frame = table.spark_table(session, messages)

    def evaluated(first: int) -> Outcomes:
        chunk = frame.selectExpr(*(one.spark for one in said[first : first + CHUNK])).toArrow()
        return [letters(column.to_pylist()) for column in chunk.columns]

    with ThreadPoolExecutor(2) as pool:
        theirs = [one for chunk in pool.map(evaluated, range(0, SPARK_COUNT, CHUNK)) for one in chunk]
    frame.unpersist()
    check(said[:SPARK_COUNT], ours[:SPARK_COUNT], theirs)
