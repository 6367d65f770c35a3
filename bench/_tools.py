"""The load tools that come with other systems: how each is got, and the rate it says it reached."""

import asyncio
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _common import say
from mqlab.systems import Running
from mqlab.systems.getting import Archive, Debian, GoProgram, Jars, Java, Part, get, place

SIZE = 12
_SECONDS = 120


@dataclass(frozen=True)
class Tool:
    """`rate` plays one producer and one consumer of 12-byte messages on what is up: messages a second."""

    system: str
    parts: tuple[Part, ...]
    rate: Callable[[Running, float], float]

    def get(self) -> None:
        for part in self.parts:
            get(part, say)


NATS_BENCH = GoProgram("github.com/nats-io/nats.go/examples/nats-bench@latest")
PERF_TEST = Jars(("com.rabbitmq:perf-test:2.22.1",))
REDIS = Debian(("redis-tools",), "redis-benchmark")
MOSQUITTO = Debian(("mosquitto-clients",), "mosquitto_pub")


def nats(running: Running, seconds: float) -> float:
    count = round(1_500_000 * seconds)
    said = output(
        place(NATS_BENCH), "-s", _url("nats", running), "-np", "1", "-ns", "1", "-n", count, "-ms", SIZE, "bench"
    )
    return number(r"Sub stats: ([\d,]+) msgs/sec", said)


def rabbitmq(running: Running, seconds: float) -> float:
    said = output(
        place(Java()), "-cp", place(PERF_TEST) / "*", "com.rabbitmq.perf.PerfTest", "-h", _url("amqp", running),
        "-x", 1, "-y", 1, "-s", SIZE, "-a", "-z", max(3, round(seconds)), "-ad", "true",
        "-u", f"bench-{time.time_ns()}",
    )  # fmt: skip
    return number(r"receiving rate avg: ([\d,]+) msg/s", said)


def artemis(running: Running, seconds: float) -> float:
    archive = next(part for part in running.system.parts if isinstance(part, Archive))  # type: ignore[attr-defined]
    said = output(
        place(archive) / "bin" / "artemis", "perf", "client", "--url", _url("tcp", running), "--message-size", SIZE,
        "--duration", max(5, round(3 * seconds)), "--warmup", 3, f"topic://bench{time.time_ns()}",
    )  # fmt: skip
    return number(r"(?s).*consumer rate: *([\d,]+)", said)


def mosquitto(running: Running, seconds: float) -> float:
    """A subscriber that ends after the last line of a file that is published; timed from the first."""
    count = round(100_000 * seconds)
    host, port = _host(running)
    at = ["-h", host, "-p", port, "-t", f"bench-{time.time_ns()}", "-q", "0"]
    with tempfile.NamedTemporaryFile() as lines:
        lines.write(b"twelve bytes\n" * count)
        lines.flush()
        words = [str(word) for word in ("mosquitto_sub", *at, "-C", count)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as subscriber:
            time.sleep(0.5)  # it cannot say when it has subscribed
            begin = time.monotonic()
            with Path(lines.name).open("rb") as given:
                words = [str(word) for word in ("mosquitto_pub", *at, "-l")]
                subprocess.run(words, stdin=given, check=True, timeout=_SECONDS)
            try:
                subscriber.wait(_SECONDS)
            finally:
                subscriber.kill()
    return count / (time.monotonic() - begin)


def redis(running: Running, seconds: float) -> float:
    """As many at once as it can; the subscriber reads and prints nothing."""
    host, port = _host(running)
    with subprocess.Popen(
        ["redis-cli", "-h", host, "-p", str(port), "SUBSCRIBE", "bench"],
        stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    ) as subscriber:  # fmt: skip
        time.sleep(0.3)
        try:
            said = output(
                "redis-benchmark", "-h", host, "-p", port, "-c", 1, "-P", 1000, "-n", round(1_000_000 * seconds),
                "--csv", "PUBLISH", "bench", "twelve bytes",
            )  # fmt: skip
        finally:
            subscriber.kill()
    return number(r'(?m)^"PUBLISH[^"]*","([\d.]+)"', said)


def kafka(running: Running, seconds: float) -> float:
    """Its producer's and its consumer's tool side by side: the lower of their rates."""
    count, topic = round(400_000 * max(seconds, 2)), f"bench-{time.time_ns()}"
    host, port = _host(running)
    server = f"{host}:{port}"
    jars = next(part for part in running.system.parts if isinstance(part, Jars))  # type: ignore[attr-defined]
    java = [str(place(Java())), "-cp", place(jars) / "*"]
    producing = [
        *java, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", count, "--record-size",
        SIZE, "--throughput", -1, "--bootstrap-server", server,
    ]  # fmt: skip
    consuming = [
        *java, "org.apache.kafka.tools.ConsumerPerformance", "--topic", topic, "--num-records", count,
        "--bootstrap-server", server, "--timeout", 30_000,
    ]  # fmt: skip

    async def both() -> tuple[str, str]:
        made = [await _started(words) for words in (consuming, producing)]
        said = await asyncio.wait_for(asyncio.gather(*(one.communicate() for one in made)), _SECONDS)
        return said[1][0].decode(), said[0][0].decode()

    produced, consumed = asyncio.run(both())
    last = consumed.strip().splitlines()[-1].split(", ")
    return min(number(r"(?s).*sent, ([\d.]+) records/sec", produced), float(last[5]))


async def _started(words: Sequence[object]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *map(str, words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )


TOOLS = (
    Tool("nats", (NATS_BENCH,), nats),
    Tool("rabbitmq", (Java(), PERF_TEST), rabbitmq),
    Tool("artemis", (), artemis),
    Tool("mosquitto", (MOSQUITTO,), mosquitto),
    Tool("kafka", (), kafka),
    Tool("redis", (REDIS,), redis),
)


def output(*words: object) -> str:
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=_SECONDS, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if ended.returncode:
        raise SystemExit(f"{words[0]} failed: {(ended.stderr or ended.stdout).strip()[-300:]}")
    return ended.stdout + ended.stderr


def number(pattern: str, said: str) -> float:
    found = re.search(pattern, said)
    if found is None:
        raise SystemExit(f"no rate in what the tool said: {said.strip()[-300:]}")
    return float(found[1].replace(",", ""))


def _host(running: Running) -> tuple[str, int]:
    _, host, port = running.address.split(":")
    return host, int(port)


def _url(scheme: str, running: Running) -> str:
    host, port = _host(running)
    return f"{scheme}://{host}:{port}"
