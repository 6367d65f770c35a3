"""From queue to queue, and from a topic: whatever is killed, each message arrives, and none twice."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from broker.server.test_listener import with_tls
from cli.command import Background
from cli.running_broker import broker_process
from client.broker_helpers import Served, serving
from mqlab.broker.security.patterns import EVERYTHING
from mqlab.broker.security.rights import RIGHTS, Rights
from mqlab.broker.security.users import Users
from mqlab.client import connect
from mqlab.spark.options import StreamOptions
from mqlab.spark.source import QueueReader
from spark.stream_helpers import (
    COPIES,
    MESSAGES,
    bodies,
    bodies_on,
    copy,
    interrupted_sink,
    kill_once,
    queues,
    send,
    source,
    start_copy,
    stop_until,
)

NEWS = "topic:news.*"
# Rows in a transaction of the sink, and more than that.
TRANSACTION, IN_THE_SECOND = 1000, 1500
TESTS = Path(__file__).parents[1]
QUERY = Path(__file__).parent / "stopped_query.py"


@contextmanager
def broker_on(folder: Path) -> Iterator[tuple[Background, str]]:
    """A broker process, which finds the data of a former one."""
    with broker_process(folder, "--data", folder / "data", "--listen", f"unix:{folder}/socket") as (broker, address):
        yield broker, address


def kill(broker: Background) -> None:
    broker.process.kill()
    broker.process.wait()


def test_a_killed_worker(streams: SparkSession, served: Served, tmp_path: Path) -> None:
    send(served.address, "queue:orders", bodies())
    flag = tmp_path / "flag"
    streams.dataSource.register(interrupted_sink(IN_THE_SECOND, kill_once(flag)))
    rows = source(streams, served.address, max_messages="2000").select("body")
    with pytest.raises(StreamingQueryException):
        copy(rows, served.address, tmp_path / "checkpoint", "mqlab-interrupted")
    assert not flag.exists()
    assert len(bodies_on(served.address, COPIES)) == TRANSACTION, "the query died in the middle of a batch"
    send(served.address, "queue:orders", [b"later"])
    copy(rows, served.address, tmp_path / "checkpoint", "mqlab-interrupted")
    assert bodies_on(served.address, COPIES) == sorted([*bodies(), b"later"])
    left = [name for name, count in queues(served.address).items() if count and name != COPIES]
    assert len(left) == 1, "Spark commits a batch when the next one begins"
    number = int(left[0].removeprefix("queue:spark.orders."))
    # A new checkpoint reads what the former query had not released.
    reader = QueueReader(StreamOptions.parse({"destination": "queue:orders", "address": served.address}))
    assert reader.initialOffset() == {"batch": number - 1}


def test_a_killed_driver(streams: SparkSession, served: Served, tmp_path: Path) -> None:
    """Python and Java of a query are killed; its workers end by themselves, without writing more."""
    send(served.address, "queue:orders", bodies())
    reached, checkpoint = tmp_path / "reached", tmp_path / "checkpoint"
    command = (sys.executable, QUERY, served.address, checkpoint, reached)
    with Background(tmp_path, *command, PYTHONPATH=":".join((*sys.path, str(TESTS)))) as query:
        query.wait_until(reached.exists)
        query.record_descendants()
        for process in query.descendants("java"):
            process.kill()
        query.process.kill()
        assert query.end()[0] == -signal.SIGKILL
    assert len(bodies_on(served.address, COPIES)) == TRANSACTION, "the query was killed in the middle of a batch"
    copy(source(streams, served.address, max_messages="2000").select("body"), served.address, checkpoint)
    assert bodies_on(served.address, COPIES) == sorted(bodies())
    assert queues(served.address)["queue:orders"] == 0


def test_a_killed_broker(streams: SparkSession, tmp_path: Path) -> None:
    """It is killed in the middle of a write, then while batches come and go, and is started again on its data."""
    reached, go_on, checkpoint = tmp_path / "reached", tmp_path / "go-on", tmp_path / "checkpoint"
    streams.dataSource.register(interrupted_sink(IN_THE_SECOND, stop_until(reached, go_on)))

    def rows(address: str, most: int) -> DataFrame:
        return source(streams, address, max_messages=str(most)).select("body")

    with broker_on(tmp_path) as (broker, address):
        send(address, "queue:orders", bodies(2 * MESSAGES))
        query = start_copy(rows(address, 2000), address, checkpoint, "mqlab-interrupted")
        broker.wait_until(lambda: reached.exists() or query.exception())
        kill(broker)
        go_on.touch()
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()
    with broker_on(tmp_path) as (broker, address):
        assert len(bodies_on(address, COPIES)) == TRANSACTION, "the broker was killed in the middle of a batch"
        query = start_copy(rows(address, 200), address, checkpoint)
        broker.wait_until(lambda: queues(address)[COPIES] > MESSAGES or query.exception())
        kill(broker)
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()
    with broker_on(tmp_path) as (_, address):
        copy(rows(address, 2000), address, checkpoint)
        assert bodies_on(address, COPIES) == sorted(bodies(2 * MESSAGES))
        assert queues(address)["queue:orders"] == 0


def write_users(path: Path) -> None:
    """A reader and a writer with the rights that the documentation names, and the test."""
    users, batches = Users.empty(), "queue:spark.#"
    reader = Rights(read=(NEWS, batches), create=(NEWS, batches), write=(batches,), admin=(batches,))
    users.add("reader", "secret of the reader", reader)
    users.add("writer", "secret of the writer", Rights(write=(COPIES,)))
    users.add("test", "secret of the test", Rights(**dict.fromkeys(RIGHTS, (EVERYTHING,))))
    users.write(path)


def test_a_topic_over_tls_with_users(streams: SparkSession, tmp_path: Path) -> None:
    """A durable subscription keeps the messages from the first start on, also while no query runs, or one is killed."""
    settings, _ = with_tls(tmp_path)
    write_users(tmp_path / "users")
    ca, flag, checkpoint = tmp_path / "ca", tmp_path / "flag", tmp_path / "checkpoint"
    streams.dataSource.register(interrupted_sink(IN_THE_SECOND, kill_once(flag)))
    with serving(replace(settings, data=tmp_path / "data", users=tmp_path / "users")) as broker:

        def copy_news(sink: str = "mqlab") -> None:
            read_by, written_by = (
                {"user": user, "password": password, "ca": str(ca)}
                for user, password in (("reader", "secret of the reader"), ("writer", "secret of the writer"))
            )
            options = {"destination": NEWS, "name": "news", "max_messages": "2000", **read_by}
            rows = source(streams, broker.address, **options).select("body")
            copy(rows, broker.address, checkpoint, sink, **written_by)

        with connect(broker.address, user="test", password="secret of the test", ca=ca) as connection:
            producer, consumer = connection.session().producer("topic:news.today"), connection.session()
            connection.session().producer(COPIES)
            producer.send(b"before", persistent=True)
            copy_news()
            for body in bodies():
                producer.send(body, persistent=True)
            with pytest.raises(StreamingQueryException):
                copy_news("mqlab-interrupted")
            assert not flag.exists()
            assert len([*consumer.browser(COPIES)]) == TRANSACTION, "the query died in the middle of a batch"
            producer.send(b"later", persistent=True)
            copy_news()
            assert sorted(message.body for message in consumer.browser(COPIES)) == sorted([*bodies(), b"later"])
