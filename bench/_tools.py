"""The load tools of other systems and the round-trip client in Go: how each is got, and the rate it says it reached."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import fmean

from confluent_kafka.admin import AdminClient, NewTopic

import _go_client as go_client
from _common import say
from mqlab.systems import SYSTEMS, Running, SystemFailedError, system
from mqlab.systems.install.download import Archive, Debian, GoProgram, Jars, Java, Part, install, path_of
from mqlab.systems.program import ProgramRunning

SIZE, KIB = 12, 1024
_SECONDS = 120
# Java is quick only after it has run for a while; the lab does not count its warm-up, either.
_JAVA_SECONDS = 5
# Of the round-trip client.
_WARM_UP_SECONDS = 0.3


@dataclass(frozen=True)
class Tool:
    """`rate` plays the load of `point`, a key of `peers.py`, on what is up: messages or round trips a second."""

    system: str
    get: Callable[[], None]
    rate: Callable[[Running, float], float]
    point: str = "A"

    @property
    def key(self) -> str:
        return self.system if self.point == "A" else f"{self.system}_{self.point}"

    def unavailable(self) -> str:
        """Why the system or the tool cannot be had; "": both are there now."""
        if self.system not in SYSTEMS:
            return f"there is no system {self.system}"
        if why := system(self.system).missing():
            return why
        try:
            self.get()
        except SystemFailedError as error:
            return str(error)
        return ""


def _parts(running: Running) -> tuple[Part, ...]:
    assert isinstance(running, ProgramRunning)
    return running.system.parts


NATS_BENCH = GoProgram("github.com/nats-io/nats.go/examples/nats-bench@latest")
PERF_TEST = Jars(("com.rabbitmq:perf-test:2.22.1",))
REDIS = Debian(("redis-tools",), "redis-benchmark")
MOSQUITTO = Debian(("mosquitto-clients",), "mosquitto_pub")


def nats(running: Running, seconds: float) -> float:
    count = round(1_500_000 * seconds)
    said = output(
        path_of(NATS_BENCH), "-s", _url("nats", running), "-np", "1", "-ns", "1", "-n", count, "-ms", SIZE, _name()
    )
    # Not the line before it, "NATS Pub/Sub stats": that counts every message twice, sent and received.
    return number(r"(?m)^\s*Sub stats: ([\d,]+) msgs/sec", said)


def rabbitmq(running: Running, seconds: float) -> float:
    """What its consumer gets in each second after Java is warm."""
    measured = max(3, round(seconds))
    said = output(
        path_of(Java()), "-cp", path_of(PERF_TEST) / "*", "com.rabbitmq.perf.PerfTest", "-h", _url("amqp", running),
        "-x", 1, "-y", 1, "-s", SIZE, "-a", "-ad", "true", "-u", _name(),
        "-z", _JAVA_SECONDS + measured,
    )  # fmt: skip
    return fmean(numbers(r"received: ([\d,]+) msg/s", said)[-measured:])


def artemis(running: Running, seconds: float) -> float:
    """What its consumer gets in each second after Java is warm.

    By default the tool waits for each confirmation; this is the form for throughput of its documentation.
    """
    archive = next(part for part in _parts(running) if isinstance(part, Archive))
    url = _url("tcp", running)
    said = output(
        path_of(archive) / "bin" / "artemis", "perf", "client", "--url", f"{url}?confirmationWindowSize=20000",
        "--consumer-url", url, "--max-pending", 100, "--message-size", SIZE, "--warmup", _JAVA_SECONDS,
        "--duration", _JAVA_SECONDS + max(3, round(seconds)), f"topic://{_name()}",
    )  # fmt: skip
    return fmean(numbers(r"(?s)warmup false.*?received: *([\d,]+)", said))


def mosquitto(running: Running, seconds: float) -> float:
    """A subscriber that ends after the last line of a file that is published; timed from the first."""
    count = round(100_000 * seconds)
    host, port = _host(running)
    at = ["-h", host, "-p", port, "-t", _name(), "-q", "0"]
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
    """As many at once as it can; the rate is that of publishing: the subscriber reads, and says nothing of it."""
    (host, port), channel = _host(running), _name()
    with subprocess.Popen(
        ["redis-cli", "-h", host, "-p", str(port), "SUBSCRIBE", channel],
        stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    ) as subscriber:  # fmt: skip
        time.sleep(0.3)
        try:
            said = output(
                "redis-benchmark", "-h", host, "-p", port, "-c", 1, "-P", 1000, "-n", round(1_000_000 * seconds),
                "--csv", "PUBLISH", channel, "twelve bytes",
            )  # fmt: skip
        finally:
            subscriber.kill()
    return number(r'(?m)^"PUBLISH[^"]*","([\d.]+)"', said)


def kafka(running: Running, seconds: float) -> float:
    """Its producer's and its consumer's tool side by side, and not counted before Java is warm: the lower rate of both.

    The topic is as the lab's: one partition. So is how the producer gathers; `acks` is the same by default.
    """
    warm, topic, server = 400_000 * _JAVA_SECONDS, _name(), ":".join(map(str, _host(running)))
    count = warm + round(400_000 * max(seconds, 2))
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    jars = next(part for part in _parts(running) if isinstance(part, Jars))
    java = [path_of(Java()), "-cp", path_of(jars) / "*"]
    producing = [
        *java, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", count, "--record-size",
        SIZE, "--throughput", -1, "--bootstrap-server", server, "--warmup-records", warm,
        "--command-property", f"batch.size={1 << 20}", "linger.ms=5", f"buffer.memory={64 << 20}",
    ]  # fmt: skip
    consuming = [
        *java, "org.apache.kafka.tools.ConsumerPerformance", "--topic", topic, "--num-records", count,
        "--bootstrap-server", server, "--timeout", 30_000, "--show-detailed-stats", "--reporting-interval", 100,
    ]  # fmt: skip
    consumed, produced = side_by_side(consuming, producing)
    return min(number(r"steady state records sent, ([\d.]+) records/sec", produced), _rate_after(warm, consumed))


def _rate_after(warm: int, said: str) -> float:
    """Of Kafka's consumer, from the moment when it had so many messages: lines of when, _, MB, MB/s, messages, ..."""
    rows = [line.split(", ") for line in said.splitlines() if line[:2] == "20"]
    (begin, first), *_, (end, last) = [
        (datetime.strptime(row[0], "%Y-%m-%d %H:%M:%S:%f"), int(row[4])) for row in rows if int(row[4]) >= warm
    ]
    return (last - first) / (end - begin).total_seconds()


def round_trips(name: str, requesters: int, running: Running, seconds: float) -> float:
    """The client in Go, with the name of the system, whose output is the rate."""
    address = ":".join(map(str, _host(running)))
    return float(output(go_client.program(), name, address, requesters, KIB, _WARM_UP_SECONDS, seconds))


def _install(*parts: Part) -> None:
    for part in parts:
        install(part, say)


TOOLS = (
    Tool("nats", partial(_install, NATS_BENCH), nats),
    Tool("rabbitmq", partial(_install, Java(), PERF_TEST), rabbitmq),
    Tool("artemis", _install, artemis),
    Tool("mosquitto", partial(_install, MOSQUITTO), mosquitto),
    Tool("kafka", _install, kafka),
    Tool("redis", partial(_install, REDIS), redis),
    *(
        Tool(name, go_client.build, partial(round_trips, name, requesters), f"RR{requesters}")
        for name in ("nats", "redis")
        for requesters in (1, 8)
    ),
)


def output(*words: object) -> str:
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=_SECONDS, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if ended.returncode:
        raise SystemExit(f"{words[0]} failed: {(ended.stderr or ended.stdout).strip()[-300:]}")
    return ended.stdout + ended.stderr


def side_by_side(*commands: Sequence[object]) -> list[str]:
    """What each of them said, once all have ended; none is left behind."""
    deadline = time.monotonic() + _SECONDS
    with ExitStack() as stack:
        started = []
        for words in commands:
            one = stack.enter_context(subprocess.Popen(
                [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ))  # fmt: skip
            stack.callback(one.kill)
            started.append(one)
        return [one.communicate(timeout=deadline - time.monotonic())[0] for one in started]


def number(pattern: str, said: str) -> float:
    return numbers(pattern, said)[-1]


def numbers(pattern: str, said: str) -> list[float]:
    """All that are found there, at least one."""
    found = re.findall(pattern, said)
    if not found:
        raise SystemExit(f"no rate in what the tool said: {said.strip()[-300:]}")
    return [float(one.replace(",", "")) for one in found]


def _name() -> str:
    """A new one, as long as the lab's are: some protocols repeat it in every message."""
    return f"topic.run-{time.time_ns() % 10**6:06d}-0"


def _host(running: Running) -> tuple[str, int]:
    _, host, port = running.address.split(":")
    return host, int(port)


def _url(scheme: str, running: Running) -> str:
    host, port = _host(running)
    return f"{scheme}://{host}:{port}"
