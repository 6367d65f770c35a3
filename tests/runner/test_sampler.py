"""What is seen of the line to a system elsewhere. Addresses are those kept for documentation: nothing is sent."""

import socket
from pathlib import Path

import psutil
import pytest

from mqlab.runner import sampler
from mqlab.runner.sampler import NetworkLink

ELSEWHERE = "tcp:192.0.2.7:5672"


def interface(folder: Path, name: str, speed: str, moved: tuple[int, int] = (0, 0)) -> Path:
    statistics = folder / name / "statistics"
    statistics.mkdir(parents=True)
    (folder / name / "speed").write_text(speed)
    for file, count in zip(("rx_bytes", "tx_bytes"), moved, strict=True):
        (statistics / file).write_text(f"{count}\n")
    return folder


@pytest.fixture
def _route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_interface", lambda *_: "eth7")


@pytest.mark.usefixtures("_route")
class TestElsewhere:
    def test_each_way_has_its_share_of_the_speed(self, tmp_path: Path) -> None:
        line = NetworkLink.to(ELSEWHERE, None, interface(tmp_path, "eth7", "1000\n", (125_000_000, 250_000_000)))
        assert line is not None
        found = line.sample()
        assert {source: row["sync_seconds"] for source, row in found.items()} == {"network-in": 1, "network-out": 2}
        assert found["network-in"]["bytes_read"] == 125_000_000
        assert found["network-out"]["bytes_written"] == 250_000_000

    @pytest.mark.parametrize("speed", ["-1\n", "0\n", ""])
    def test_a_speed_that_the_kernel_does_not_know(self, tmp_path: Path, speed: str) -> None:
        interfaces = interface(tmp_path, "eth7", speed, (1000, 0))
        assert NetworkLink.to(ELSEWHERE, None, interfaces) is None
        said = NetworkLink.to(ELSEWHERE, 8000.0, interfaces)
        assert said is not None
        assert said.sample()["network-in"]["sync_seconds"] == 1

    def test_its_owner_knows_better(self, tmp_path: Path) -> None:
        line = NetworkLink.to(ELSEWHERE, 8000.0, interface(tmp_path, "eth7", "10000\n", (1000, 0)))
        assert line is not None
        assert line.sample()["network-in"]["sync_seconds"] == 1

    @pytest.mark.parametrize(
        "address", ["tcp:127.0.0.1:1", "tcp:localhost:1", "unix:/it", "bindings:it", "(nio://a:1)"]
    )
    def test_this_machine_has_no_line(self, address: str) -> None:
        assert NetworkLink.to(address, 8000.0) is None


def test_an_address_of_this_machine_is_reached_without_a_line() -> None:
    own = [one.address for all_of in psutil.net_if_addrs().values() for one in all_of if one.family == socket.AF_INET]
    assert own
    assert [NetworkLink.to(f"tcp:{address}:1", 8000.0) for address in own] == [None] * len(own)
