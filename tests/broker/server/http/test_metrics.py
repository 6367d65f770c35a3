"""The counters over HTTP: what they say, and what they do with whatever a peer sends."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.server.raw_client import client, in_loop, local
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.http import server
from mqlab.broker.server.http.metrics import MetricsEndpoint, start_metrics
from mqlab.broker.server.http.prometheus import _BROKER, _DESTINATION
from mqlab.broker.server.startup import running
from mqlab.broker.settings import SettingError
from mqlab.client import aio


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Served(NamedTuple):
    broker: Broker
    connection: aio.Connection
    metrics: MetricsEndpoint

    async def write(self, data: bytes, *, half_close: bool = False) -> bytes:
        """All that comes back until the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.metrics.address.rpartition(":")[2]))
        try:
            writer.write(data)
            if half_close:
                writer.write_eof()
            return await reader.read()
        finally:
            writer.close()

    async def get(self, path: str, *, method: str = "GET", host: str = "127.0.0.1:9", accept: str = "*/*") -> Reply:
        said = await self.write(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n".encode())
        return parsed(said)

    async def samples(self) -> dict[tuple[str, str], float]:
        """By name and destination."""
        reply = await self.get("/metrics")
        assert reply.status == 200
        found = text_string_to_metric_families(reply.body.decode())
        each = [sample for family in found for sample in family.samples]
        listed = [((one.name, one.labels.get("destination", "")), one.value) for one in each]
        assert len(listed) == len(dict(listed)), "a series stands there twice"
        return dict(listed)


def parsed(said: bytes) -> Reply:
    head, _, body = said.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Reply(int(first.split()[1]), headers, body)


@asynccontextmanager
async def served(**chosen: object) -> AsyncIterator[Served]:
    async with running(local(**chosen)) as (broker, (address,)):
        metrics = await start_metrics(broker, "127.0.0.1:0")
        try:
            yield Served(broker, await client(address), metrics)
        finally:
            await metrics.close()


class TestPrometheus:
    @in_loop
    async def test_every_counter_is_there(self, tmp_path: Path) -> None:
        async with served(data=tmp_path) as one:
            producer = await (await one.connection.session()).producer("queue:a")
            await producer.send(b"x", persistent=True)
            names = {name for name, _ in await one.samples()}
        for family in (*_BROKER, *_DESTINATION):
            assert f"mqlab_{family.name}{'_total' if family.counter else ''}" in names

    @in_loop
    async def test_they_count_what_happened(self, tmp_path: Path) -> None:
        async with served(data=tmp_path) as one:
            session = await one.connection.session("client")
            producer = await session.producer("queue:orders")
            for _ in range(3):
                await producer.send(b"12345", persistent=True)
            consumer = await session.consumer("queue:orders", prefetch=1)
            await consumer.receive()
            found = await one.samples()
            assert found["mqlab_messages", "queue:orders"] == 3
            assert found["mqlab_put_total", "queue:orders"] == 3
            assert found["mqlab_bytes", "queue:orders"] == one.broker.status()["bytes"] > 15
            assert found["mqlab_consumers", "queue:orders"] == 1
            assert found["mqlab_delivered_total", "queue:orders"] == 1
            assert found["mqlab_acknowledged_total", "queue:orders"] == 0
            assert found["mqlab_connections", ""] == 1
            assert found["mqlab_longest_turn_seconds", ""] > 0
            assert found["mqlab_syncs_total", ""] >= 1
            assert found["mqlab_journal_bytes_total", ""] > 15
            consumer.acknowledge()
            await consumer.close()
            found = await one.samples()
            assert found["mqlab_messages", "queue:orders"] == 2
            assert found["mqlab_acknowledged_total", "queue:orders"] == 1

    @in_loop
    async def test_a_held_producer_is_seen(self) -> None:
        async with served(queue_limit=100) as one:
            producer = await (await one.connection.session()).producer("queue:full")
            await producer.send(b"x" * 200)
            await producer.flush()
            found = await one.samples()
            while not found["mqlab_held_producers", ""]:
                found = await one.samples()
            assert (found["mqlab_holds_total", ""], found["mqlab_full", "queue:full"]) == (1, 1)
            assert (found["mqlab_disk_full", ""], found["mqlab_held_seconds_total", ""] >= 0) == (0, True)
            await (await (await one.connection.session()).consumer("queue:full")).receive()

    @in_loop
    async def test_names_come_through_whatever_is_in_them(self) -> None:
        async with served() as one:
            names = ['queue:a"b', "queue:back\\slash", "queue:Zürich {x=1}", "queue:a,b=c #"]
            for name in names:
                await (await one.connection.session()).producer(name)
            assert set(names) <= {destination for _, destination in await one.samples()}

    @in_loop
    async def test_what_comes_and_goes_is_shown_as_one_and_its_counters_never_fall(self) -> None:
        async with served() as one:
            session = await one.connection.session()
            producer = await session.producer("topic:prices")
            consumers = [await session.consumer("topic:prices") for _ in range(3)]
            await session.consumer("topic:prices", durable="kept")
            await producer.send(b"one")
            for consumer in consumers:
                await consumer.receive()
            before = await one.samples()
            assert before["mqlab_consumers", "topic:prices"] == 3
            assert before["mqlab_put_total", "topic:prices"] == 3
            assert before["mqlab_put_total", "subscription:kept"] == 1
            for consumer in consumers:
                await consumer.close()
            after = await one.samples()
            assert (after["mqlab_consumers", "topic:prices"], after["mqlab_messages", "topic:prices"]) == (0, 0)
            again = await session.consumer("topic:prices")
            await producer.send(b"two")
            await again.receive()
            assert (await one.samples())["mqlab_put_total", "topic:prices"] == 4

    @in_loop
    async def test_temporary_queues_are_one(self) -> None:
        async with served() as one:
            for _ in range(3):
                producer = await (await one.connection.session()).producer(await one.connection.temporary_queue())
                await producer.send(b"reply")
            await one.connection.status()
            found = await one.samples()
            assert found["mqlab_messages", "queue:temporary.*"] == 3
            assert sum("temporary" in destination for _, destination in found) == len(_DESTINATION)

    @in_loop
    async def test_the_form_is_the_one_that_was_asked_for(self) -> None:
        async with served() as one:
            plain = await one.get("/metrics")
            assert plain.headers["content-type"].startswith("text/plain; version=")
            accept = "application/openmetrics-text; version=1.0.0"
            assert (await one.get("/metrics", accept=accept)).body.endswith(b"# EOF\n")


class TestJson:
    @in_loop
    async def test_it_is_what_the_questions_answer(self) -> None:
        async with served() as one:
            session = await one.connection.session()
            await (await session.producer("queue:a")).send(b"x")
            await session.consumer("topic:b", durable="sub", selector="x = 'ü'")
            asked, reply = await one.connection.ask("list"), await one.get("/destinations.json")
            assert reply.headers["content-type"] == "application/json"
            answers = [asked, json.loads(reply.body)]
            for queue in (queue for answer in answers for queue in answer["destinations"]):
                for moving in ("oldest_age_ms", "put_rate", "get_rate"):
                    queue["monitoring"].pop(moving)
            assert answers[0] == answers[1]
            assert {each["name"] for each in asked["destinations"]} == {"queue:a", "subscription:sub"}
            status = json.loads((await one.get("/status.json?now")).body)
            assert status.keys() == (await one.connection.status()).keys()
            assert (status["messages"], status["connections"]) == (1, 1)


class TestRequests:
    @pytest.mark.parametrize("path", ["/", "/metrics/", "//metrics", "/../metrics", "/status", "/Metrics", "*"])
    @in_loop
    async def test_other_pages_are_not_there(self, path: str) -> None:
        async with served() as one:
            reply = await one.get(path)
            assert reply.status == 404
            assert b"/metrics, /status.json, /destinations.json" in reply.body

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
    @in_loop
    async def test_only_get_is_served(self, method: str) -> None:
        async with served() as one:
            reply = await one.get("/metrics", method=method)
            assert (reply.status, reply.headers["allow"]) == (405, "GET")
            assert bool(reply.body) == (method != "HEAD")

    @pytest.mark.parametrize(
        ("host", "status"),
        [("127.0.0.1", 200), ("127.0.0.1:9766", 200), ("localhost:9766", 200), ("[::1]:9766", 200), ("", 421),
         ("example.org", 421), ("example.org:9766", 421), ("127.0.0.1.example.org", 421), ("192.0.2.1", 421)],
    )  # fmt: skip
    @in_loop
    async def test_a_name_that_was_pointed_here_is_not_served(self, host: str, status: int) -> None:
        """So a page in a browser cannot read the counters of the machine that it is shown on."""
        async with served() as one:
            assert (await one.get("/status.json", host=host)).status == status

    @pytest.mark.parametrize(
        ("said", "status"),
        [
            (b"nonsense\r\n\r\n", 400),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
            (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
            (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
            (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 431),
            (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 100_000, 431),
        ],
    )
    @in_loop
    async def test_what_is_no_request_is_refused(self, said: bytes, status: int) -> None:
        async with served() as one:
            assert parsed(await one.write(said)).status == status
            assert (await one.get("/status.json")).status == 200

    @in_loop
    async def test_half_a_request_is_refused_and_none_is_no_fault(self) -> None:
        async with served() as one:
            assert parsed(await one.write(b"GET /met", half_close=True)).status == 400
            assert await one.write(b"", half_close=True) == b""

    @in_loop
    async def test_whatever_comes_is_answered_or_dropped(self) -> None:
        good = b"GET /status.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nContent-Length: 3\r\n\r\nabc"
        chance = random.Random(4)
        async with served() as one:
            for _ in range(300):
                data = bytearray(good)
                for _ in range(chance.randint(1, 5)):
                    data[chance.randrange(len(data))] = chance.choice((0, 10, 13, 32, 58, 255, chance.randrange(256)))
                answer = await one.write(bytes(data), half_close=True)
                assert answer == b"" or 200 <= parsed(answer).status < 500, bytes(data)
            assert (await one.get("/status.json")).status == 200

    @in_loop
    async def test_one_answer_a_connection(self) -> None:
        async with served() as one:
            twice = b"GET /status.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2
            said = await one.write(twice)
            assert said.count(b"HTTP/1.1 200") == 1
            assert b"connection: close" in said.lower()

    @in_loop
    async def test_who_takes_too_long_is_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "_REQUEST_SECONDS", 0.2)
        async with served() as one:
            assert await one.write(b"GET /metrics HTTP/1.1\r\nHost:") == b""
            assert (await one.get("/status.json")).status == 200

    @in_loop
    async def test_many_at_once_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "_MOST_CONNECTIONS", 2)
        async with served() as one:
            port = int(one.metrics.address.rpartition(":")[2])
            waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in waiting:
                writer.write(b"GET ")
            assert await one.write(b"") == b""
            for reader, writer in waiting:
                writer.write(b"/status.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                assert b"HTTP/1.1 200" in await reader.read()
                writer.close()
            while (await one.write(b"GET /status.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")) == b"":
                pass

    @in_loop
    async def test_a_page_that_fails_is_told_and_logged(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with served() as one:
            monkeypatch.setattr(one.broker, "status", lambda: 1 / 0)
            reply = await one.get("/metrics")
            assert reply.status == 500
            assert b"division" not in reply.body
            assert "ZeroDivisionError" in caplog.text
            assert (await one.get("/destinations.json")).status == 200


class TestWhere:
    @pytest.mark.parametrize(
        ("where", "words"),
        [
            ("0.0.0.0:0", "can be reached from other machines"),
            ("[::]:0", "can be reached from other machines"),
            ("example.org:80", "can be reached from other machines"),
            ("9766", "is not HOST:PORT"),
            ("127.0.0.1", "is not HOST:PORT"),
            ("127.0.0.1:99999", "is not HOST:PORT"),
            ("127.0.0.1:-1", "is not HOST:PORT"),
        ],
    )
    @in_loop
    async def test_it_serves_this_machine_only(self, where: str, words: str) -> None:
        async with running(local()) as (broker, _):
            with pytest.raises(SettingError, match=words):
                await start_metrics(broker, where)

    @in_loop
    async def test_a_port_in_use_is_an_error(self) -> None:
        async with served() as one:
            with pytest.raises(OSError, match="ddress already in use"):
                await start_metrics(one.broker, one.metrics.address.removeprefix("http://"))

    @in_loop
    async def test_it_ends_with_whoever_is_connected(self) -> None:
        async with running(local()) as (broker, _):
            metrics = await start_metrics(broker, "127.0.0.1:0")
            port = int(metrics.address.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET ")
            assert await Served(broker, None, metrics).get("/status.json")  # type: ignore[arg-type]  # no client needed
            await metrics.close()
            assert await reader.read() == b""
            writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)
