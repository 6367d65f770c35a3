"""Load from hosts that network namespaces imitate: each has its own address, name, clock and processes.

A proxy delays what they and the broker send to each other; the kernel delays all that hosts send, if it can.
`make test-cluster`, as root.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from cli.command import PROGRAM, mqlab
from cluster.spark_servers import HOME, server
from cluster.test_agents import only_folder
from mqlab.pipeline.measure_tables import read_table
from mqlab.runner.faults.proxy import LineState
from mqlab.wire.address import Address
from runner.lab import check_delivery, rows

pytestmark = [
    pytest.mark.skipif(not os.environ.get("MQLAB_TEST_CLUSTER"), reason="this is for `make test-cluster`"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces"),
]
SECOND: Final = 10**9
DELAY_NS: Final = 20_000_000
# Of the proxy, each way. It is on no path but that of the messages: the clocks are compared without it.
LINE_DELAY_NS: Final = 50_000_000
NETWORK: Final = "10.213.77"
STUDY: Final = """
study: mine
title: My own
scenarios:
  A: {queues: 1, producers: 1, consumers: 1, message: {size: 64B}, rate: 200/s}
scales:
  quick: {phases: {warmup: 500ms, measure: 2s, drain: 60s}, repeat: {until: none, least: 1, most: 1}}
"""


@dataclass(frozen=True)
class Host:
    """Its clock is `ahead_seconds` ahead of ours."""

    name: str
    address: str
    ahead_seconds: int

    def command(self, *words: str) -> list[str]:
        """The command, on this host."""
        processes, clock = ("--pid", "--fork", "--kill-child", "--mount-proc"), ("--monotonic", str(self.ahead_seconds))
        own = ("unshare", "--uts", *processes, "--time", *clock)
        return ["ip", "netns", "exec", self.name, *own, "sh", "-c", 'hostname "$0" && exec "$@"', self.name, *words]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def delay(*before: str, interface: str) -> bool:
    """Whether the kernel can delay what leaves the interface."""
    milliseconds = f"{DELAY_NS // 1_000_000}ms"
    command = [*before, "tc", "qdisc", "add", "dev", interface, "root", "netem", "delay", milliseconds]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Network:
    """Our address, the other hosts, and how long a packet takes from a host to us, and back."""

    ours: str
    hosts: list[Host]
    delay_ns: int


@pytest.fixture
def network() -> Iterator[Network]:
    number = os.getpid()
    bridge, ours = f"mqbr{number}", f"{NETWORK}.1"
    hosts = [Host(f"mqa{number}", f"{NETWORK}.2", 3000), Host(f"mqb{number}", f"{NETWORK}.3", 70_000)]
    delayed = True
    with ExitStack() as stack:
        ip("link", "add", bridge, "type", "bridge")
        stack.callback(ip, "link", "del", bridge)
        ip("address", "add", f"{ours}/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for host in hosts:
            ip("netns", "add", host.name)
            stack.callback(ip, "netns", "del", host.name)
            outer = f"{host.name}-o"
            ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", host.name)
            # The kernel takes a while to remove what a namespace had.
            stack.callback(ip, "link", "del", outer)
            ip("link", "set", outer, "master", bridge, "up")
            ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
            ip("-n", host.name, "link", "set", "eth0", "up")
            ip("-n", host.name, "link", "set", "lo", "up")
            there = delay(interface=outer)
            back = delay("ip", "netns", "exec", host.name, interface="eth0")
            delayed = delayed and there and back
        yield Network(ours, hosts, DELAY_NS if delayed else 0)


@pytest.fixture
def master(network: Network, tmp_path: Path) -> Iterator[str]:
    """A cluster with a worker on each host, and its master here."""
    program, deploy = str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy"
    with ExitStack() as stack:
        command = [program, f"{deploy}.master.Master", "--host", network.ours, "--port", "0", "--webui-port", "0"]
        announced = r"Starting Spark master at (spark://\S+)"
        _, address = stack.enter_context(server(command, tmp_path / "master", announced, SPARK_LOCAL_IP=network.ours))
        for host in network.hosts:
            folder = tmp_path / host.name
            worker = [program, f"{deploy}.worker.Worker", "--host", host.address, "--webui-port", "0"]
            worker += ["--work-dir", str(folder), "--cores", "1", "--memory", "600m", address]
            registered = "Successfully registered with master (.*)"
            stack.enter_context(server(host.command(*worker), folder, registered, SPARK_LOCAL_IP=host.address))
        yield address


@contextmanager
def delayed_line(host: str, address: str) -> Iterator[str]:
    """The address of a proxy on that host, through which each way to the broker takes longer."""
    target = Address.parse(address)
    command = [sys.executable, "-m", "mqlab.runner.faults.proxy", target.host, str(target.port), host]
    # It ends when its stdin closes.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        port = proxy.stdout.readline().removeprefix("listening on ").strip()
        print(LineState(delay_s=LINE_DELAY_NS / SECOND).to_json(), file=proxy.stdin, flush=True)
        assert proxy.stdout.readline() == "ok\n"
        yield f"tcp:{host}:{port}"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def test_offsets_and_latencies_of_hosts_with_different_clocks(
    network: Network, master: str, study: Path, tmp_path: Path
) -> None:
    listen = [
        *PROGRAM,
        "broker",
        "--listen",
        f"tcp:{network.ours}:0",
        "--open-to-network",
        "--data",
        str(tmp_path / "d"),
    ]
    with (
        server(listen, tmp_path / "broker", r"listening on (tcp:\S+)") as (_, address),
        delayed_line(network.ours, address) as line,
    ):
        ended = mqlab(
            "run", study, "--agents", master, "--conf", "spark.executor.memory=500m", "--runs", tmp_path / "runs",
            "--system", f"external:driver=native,address={line}",
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    folder = only_folder(tmp_path / "runs")
    check_delivery(folder, 1, size=64)
    hosts = folder.meta()["hosts"]
    assert sorted(hosts) == [host.name for host in network.hosts]
    ahead = {host.name: host.ahead_seconds for host in network.hosts}
    clocks = {row["agent"]: row for row in rows(folder, "clocks")}
    for number, host in enumerate(hosts, start=1):
        assert network.delay_ns <= clocks[number]["error"] < SECOND
        assert abs(clocks[number]["offset"] + ahead[host] * SECOND) <= clocks[number]["error"]
    # The agents sample themselves.
    sources = {row["source"] for row in rows(folder, "samples")}
    assert {f"agent-{number}@{host}" for number, host in enumerate(hosts, start=1)} <= sources
    (audit,) = read_table(folder, "audits")
    assert audit["status"] == "clean", audit["reason"]
    # From one host to us, and from us to the other.
    known_ns = 2 * (network.delay_ns + LINE_DELAY_NS)
    (median,) = [row["value"] for row in read_table(folder, "measures") if row["metric"] == "latency.p50"]
    error = sum(clock["error"] for clock in clocks.values())
    assert error < known_ns, "the bound says something"
    assert (known_ns - error) / SECOND <= median <= (known_ns + error) / SECOND + 1.0


def test_a_broker_on_our_loopback_is_refused(master: str, study: Path, tmp_path: Path) -> None:
    ended = mqlab(
        "run", study, "--agents", master, "--conf", "spark.executor.memory=500m", "--runs", tmp_path / "runs"
    )  # fmt: skip
    assert ended.returncode == 7, ended.stderr
    assert "cannot reach tcp:127.0.0.1:" in ended.stderr
    assert "the loopback of this machine" in ended.stderr
