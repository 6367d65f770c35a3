"""Addresses, as people write them on a command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.wire.address import Address, BadAddressError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp:127.0.0.1:7766", Address("127.0.0.1", 7766)),
        ("tcp:localhost:0", Address("localhost", 0)),
        ("tcp:host.example:65535", Address("host.example", 65535)),
        ("tcp:[::1]:7766", Address("::1", 7766)),
        ("tls:host.example:7767", Address("host.example", 7767, tls=True)),
        ("tls:[::1]:7767", Address("::1", 7767, tls=True)),
        ("unix:/run/broker.sock", Address("", 0, "/run/broker.sock")),
        ("unix:here:and:there", Address("", 0, "here:and:there")),
        ("bindings:shop-1", Address("", 0, broker="shop-1")),
    ],
)
def test_an_address_is_read_and_written_back(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "tcp", "tcp:", "tcp::7766", "tcp:127.0.0.1", "tcp:127.0.0.1:", "tcp:127.0.0.1:65536", "tcp:127.0.0.1:-1",
        "tcp:127.0.0.1:http", "tcp:127.0.0.1:+7", "unix:", "udp:127.0.0.1:7766", "127.0.0.1:7766", "/run/broker.sock",
        "bindings:", "bindings:a.b", "bindings:a:1", f"bindings:{'a' * 49}", "BINDINGS:a",
        "tls:", "tls::7766", "tls:127.0.0.1:65536", "TLS:127.0.0.1:7766",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_an_example_of_one(text: str) -> None:
    with pytest.raises(BadAddressError, match=r"tcp:127\.0\.0\.1:7766"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("tcp:127.0.0.1:1", True),
        ("tcp:127.8.9.10:1", True),
        ("tcp:localhost:1", True),
        ("tcp:[::1]:1", True),
        ("unix:/run/broker.sock", True),
        ("bindings:shop", True),
        ("tls:127.0.0.1:1", True),
        ("tls:0.0.0.0:1", False),
        ("tcp:0.0.0.0:1", False),
        ("tcp:[::]:1", False),
        ("tcp:192.168.1.2:1", False),
        # A name may mean anything tomorrow: only "localhost" is trusted to stay on this machine.
        ("tcp:localhost.example:1", False),
    ],
)
def test_local_is_only_what_no_other_machine_can_reach(text: str, local: bool) -> None:
    assert Address.parse(text).is_local is local


@given(st.text())
def test_any_text_is_an_address_or_a_clear_error(text: str) -> None:
    for candidate in (text, f"tcp:{text}", f"unix:{text}", f"tcp:{text}:1", f"tls:{text}:1", f"bindings:{text}"):
        try:
            address = Address.parse(candidate)
        except BadAddressError:
            continue
        assert Address.parse(str(address)) == address
